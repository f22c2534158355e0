#!/usr/bin/env node
// Starts the program of this platform's package and ends as it does.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const name = `qwen-run-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/qwen`);
} catch {
  console.error(`qwen-run: the package ${name} is not installed; was --omit=optional set, or the lock file made on another platform?`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(`qwen-run: ${program} does not start: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
