//! Provides recipes of batches that several files test.

/// A recipe that classifies a stranger's text, in one request.
pub(crate) const CLASSIFY: &str = "\
recipe: 1
name: classify
description: Find the kind of a ticket.
params:
  text: {type: string, description: The ticket., untrusted: true}
prompt: |
  Answer with one word for this ticket.
  {{ params.text }}
needs: {tools: []}
";

/// A recipe that changes a repository.
pub(crate) const UPGRADE: &str = "\
recipe: 1
name: upgrade
description: Upgrade a repository.
prompt: 'Upgrade this repository.'
needs: {read: ['**'], write: ['**'], create: ['**'], tools: [read_file, write_file]}
output: {kind: changes}
";
