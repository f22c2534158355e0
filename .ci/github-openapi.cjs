// Cuts fixtures/github/openapi.json out of GitHub's own description of its interface (npm: @octokit/openapi): the
// operations that qwen uses, with every field of requests and those fields of answers that the test server gives.
//
//   npm install --prefix DIR --ignore-scripts @octokit/openapi@23.0.2
//   node .ci/github-openapi.cjs DIR > fixtures/github/openapi.json
'use strict';
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const folder = join(process.argv[2], 'node_modules/@octokit/openapi');
const version = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version;
const api = JSON.parse(readFileSync(join(folder, 'generated/api.github.com.json'), 'utf8'));

const user = { login: 1, id: 1, type: 1 };
const place = { label: 1, ref: 1, sha: 1, repo: { full_name: 1, fork: 1 } };
const pull = {
  number: 1, state: 1, title: 1, body: 1, draft: 1, html_url: 1, merged: 1, merged_at: 1, closed_at: 1,
  user, head: place, base: place, labels: { name: 1 },
};
const comment = { id: 1, body: 1, html_url: 1, user, created_at: 1, updated_at: 1 };
const reviewComment = { ...comment, path: 1, commit_id: 1, pull_request_url: 1 };
const checkRun = { id: 1, name: 1, head_sha: 1, status: 1, conclusion: 1, external_id: 1, html_url: 1, output: { title: 1, summary: 1 } };
const run = { id: 1, name: 1, head_sha: 1, status: 1, conclusion: 1, created_at: 1 };

// Operation → fields of its good answer; a field that GitHub does not have is an error.
const operations = {
  'get /repos/{owner}/{repo}/collaborators/{username}/permission': { permission: 1, role_name: 1 },
  'get /repos/{owner}/{repo}/pulls': { ...pull, merged: undefined },
  'post /repos/{owner}/{repo}/pulls': pull,
  'get /repos/{owner}/{repo}/pulls/{pull_number}': pull,
  'patch /repos/{owner}/{repo}/pulls/{pull_number}': pull,
  'get /repos/{owner}/{repo}/pulls/{pull_number}/files': { sha: 1, filename: 1, previous_filename: 1, status: 1, additions: 1, deletions: 1, changes: 1, patch: 1 },
  'post /repos/{owner}/{repo}/pulls/{pull_number}/reviews': { id: 1, body: 1, state: 1, html_url: 1, commit_id: 1, user },
  'post /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers': { number: 1, html_url: 1 },
  'patch /repos/{owner}/{repo}/pulls/comments/{comment_id}': reviewComment,
  'post /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies': reviewComment,
  'get /repos/{owner}/{repo}/pulls/{pull_number}/comments': reviewComment,
  'get /repos/{owner}/{repo}/issues/{issue_number}': { number: 1, title: 1, body: 1, state: 1, html_url: 1, user, labels: { name: 1 } },
  'get /repos/{owner}/{repo}/issues/{issue_number}/comments': comment,
  'post /repos/{owner}/{repo}/issues/{issue_number}/comments': comment,
  'patch /repos/{owner}/{repo}/issues/comments/{comment_id}': comment,
  'delete /repos/{owner}/{repo}/issues/comments/{comment_id}': {},
  'post /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions': { id: 1, content: 1 },
  'post /repos/{owner}/{repo}/pulls/comments/{comment_id}/reactions': { id: 1, content: 1 },
  'get /repos/{owner}/{repo}/issues/{issue_number}/labels': { name: 1, description: 1 },
  'post /repos/{owner}/{repo}/issues/{issue_number}/labels': { name: 1, description: 1 },
  'delete /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}': { name: 1, description: 1 },
  'get /repos/{owner}/{repo}/labels': { name: 1, description: 1 },
  'get /repos/{owner}/{repo}/commits/{ref}/check-runs': { total_count: 1, check_runs: checkRun },
  'post /repos/{owner}/{repo}/check-runs': checkRun,
  'patch /repos/{owner}/{repo}/check-runs/{check_run_id}': checkRun,
  'get /repos/{owner}/{repo}/actions/runs': { total_count: 1, workflow_runs: run },
  'get /repos/{owner}/{repo}/actions/runs/{run_id}/jobs': { total_count: 1, jobs: { id: 1, name: 1, conclusion: 1, status: 1 } },
  'get /repos/{owner}/{repo}/actions/jobs/{job_id}/logs': {},
  'get /repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs': { total_count: 1, workflow_runs: run },
  'post /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches': {},
  'get /user': { login: 1 },
};

const resolve = (value) => (value && value.$ref ? resolve(value.$ref.split('/').slice(1).reduce((at, key) => at[key], api)) : value);
const KEPT = ['type', 'enum', 'minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'required', 'additionalProperties'];

// One schema in the words of JSON Schema: no references, no prose, `nullable` as a type. With `fields`, those alone.
function schema(given, fields) {
  const from = resolve(given);
  const out = {};
  for (const key of KEPT) if (from[key] !== undefined && typeof from[key] !== 'object') out[key] = from[key];
  if (from.enum) out.enum = [...from.enum];
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    if (from[key]) out[key] = from[key].map((one) => schema(one, fields));
  }
  // A list of things is written with the fields of one.
  if (from.items) out.items = schema(from.items, fields);
  if (from.properties) {
    const names = Object.keys(from.properties).filter((name) => !fields || fields[name]);
    out.properties = Object.fromEntries(names.map((name) => {
      const inner = fields && typeof fields[name] === 'object' ? fields[name] : undefined;
      return [name, schema(from.properties[name], inner)];
    }));
    out.required = (from.required || []).filter((name) => names.includes(name));
    out.additionalProperties = false;
  }
  if (from.nullable) {
    if (out.type) out.type = [out.type, 'null'];
    if (out.enum) out.enum.push(null);
    if (out.anyOf) out.anyOf.push({ type: 'null' });
    if (out.allOf || out.oneOf) return { anyOf: [out, { type: 'null' }] };
  }
  return out;
}

// What the answer has of a field, wherever the schema says it.
const names = (one) => [one, ...(one.anyOf || []), ...(one.oneOf || []), ...(one.allOf || [])]
  .flatMap((each) => [...Object.keys(each.properties || {}), ...(each.items ? names(each.items) : [])]);

const paths = {};
for (const [operation, fields] of Object.entries(operations)) {
  const [method, path] = operation.split(' ');
  const found = api.paths[path] && api.paths[path][method];
  if (!found) throw new Error(`GitHub has no ${operation}`);
  const query = (found.parameters || []).map(resolve).filter((one) => one.in === 'query');
  const one = { parameters: query.map((each) => ({ name: each.name, required: each.required === true, schema: schema(each.schema) })) };
  const body = found.requestBody && found.requestBody.content['application/json'];
  if (body) {
    const kept = schema(body.schema);
    // A tool that nobody describes is none that we send.
    one.requestBody = { required: found.requestBody.required !== false, schema: kept };
  }
  one.responses = {};
  for (const [status, given] of Object.entries(found.responses)) {
    const answer = resolve(given);
    const content = answer.content && answer.content['application/json'];
    const good = status.startsWith('2');
    one.responses[status] = content ? schema(content.schema, good ? fields : undefined) : null;
    const missing = content && good ? Object.keys(fields).filter((name) => fields[name] && !names(one.responses[status]).includes(name)) : [];
    if (missing.length > 0) throw new Error(`GitHub's answer to ${operation} has no ${missing}`);
  }
  (paths[path] ||= {})[method] = one;
}
const info = { title: 'Operations of the GitHub REST API that qwen uses', version: `@octokit/openapi ${version}` };
process.stdout.write(`${JSON.stringify({ openapi: api.openapi, info, paths }, null, 1)}\n`);
