//! Judges `[[ ]]`.

use crate::policy::decision::Denial;

use super::ast::Test;
use super::fields::Place;
use super::state::Judge;

impl Judge<'_> {
    /// Judges an expression and returns it as it is printed.
    pub(super) fn test(&mut self, test: &Test, place: Place<'_>) -> Result<Test, Denial> {
        Ok(match test {
            Test::Not(inside) => Test::Not(Box::new(self.test(inside, place)?)),
            Test::Group(inside) => Test::Group(Box::new(self.test(inside, place)?)),
            Test::And(left, right) => Test::And(Box::new(self.test(left, place)?), Box::new(self.test(right, place)?)),
            Test::Or(left, right) => Test::Or(Box::new(self.test(left, place)?), Box::new(self.test(right, place)?)),
            Test::Word(word) => Test::Word(self.unsplit(word, place)?.shown),
            Test::Unary(operator, word) => {
                let mut field = self.unsplit(word, place)?;
                match operator.as_str() {
                    "-z" | "-n" => {}
                    "-v" | "-R" | "-o" => {
                        return Err(Denial::unanalysable(format!("`{operator}` tests variables or options")).by("G3"));
                    }
                    "-t" => refuse_arithmetic(field.text())?,
                    _ => match field.text() {
                        Some(path) => {
                            self.probed(path, place.folders)?;
                            self.place_one(&mut field);
                        }
                        None => return Err(Denial::unanalysable("a file test of a value that is not known")),
                    },
                }
                Test::Unary(operator.clone(), field.shown)
            }
            Test::Binary(left, operator, right) => {
                let mut first = self.unsplit(left, place)?;
                let shown = match operator.as_str() {
                    "=" | "==" | "!=" | "=~" => self.pattern(right, place)?,
                    "<" | ">" => self.unsplit(right, place)?.shown,
                    "-nt" | "-ot" | "-ef" => {
                        let mut second = self.unsplit(right, place)?;
                        for field in [&mut first, &mut second] {
                            match field.text() {
                                Some(path) => {
                                    self.probed(path, place.folders)?;
                                    self.place_one(field);
                                }
                                None => return Err(Denial::unanalysable("a file test of a value that is not known")),
                            }
                        }
                        second.shown
                    }
                    _ => {
                        let second = self.unsplit(right, place)?;
                        // bash evaluates these words as arithmetic, which can run commands.
                        refuse_arithmetic(first.text())?;
                        refuse_arithmetic(second.text())?;
                        second.shown
                    }
                };
                Test::Binary(first.shown, operator.clone(), shown)
            }
        })
    }
}

/// `None` is `$?`, a number.
fn refuse_arithmetic(text: Option<&str>) -> Result<(), Denial> {
    match text {
        Some(text) if text.is_empty() || text.parse::<i64>().is_err() => {
            Err(Denial::unanalysable(format!("`{text}` in a comparison of numbers")).hint("write a number"))
        }
        Some(_) | None => Ok(()),
    }
}
