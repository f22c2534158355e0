// Compares GraphQL documents with GitHub's own schema, and fails if one does not fit.
'use strict';
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { buildSchema, parse, validate } = require('graphql');

// The package has no entry for it.
const schema = buildSchema(readFileSync(join(process.env.NODE_PATH, '@octokit/graphql-schema/schema.graphql'), 'utf8'), {
  // It defines a field twice, which is no matter here.
  assumeValidSDL: true,
});
let found = 0;
for (const file of process.argv.slice(2)) {
  for (const error of validate(schema, parse(readFileSync(file, 'utf8')))) {
    console.error(`${file}: ${error.message}`);
    found += 1;
  }
}
console.log(found === 0 ? `graphql: ${process.argv.length - 2} documents, no findings` : `graphql: ${found} findings`);
process.exit(found === 0 && process.argv.length > 2 ? 0 : 1);
