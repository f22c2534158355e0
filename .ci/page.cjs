// Opens review pages in a browser, and compares what they do with what `qwen apply` does.
'use strict';
const { chromium } = require('playwright-core');
const { execFileSync } = require('node:child_process');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const program = process.env.QWEN_PROGRAM;
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'qwen-page-'));
const pictures = process.env.QWEN_PICTURES;
const fixture = path.resolve('fixtures/page');
const home = path.join(folder, 'home');
fs.mkdirSync(home);
const environment = { HOME: home, PATH: process.env.PATH, CI: '1' };
const run = (command, words, cwd) => execFileSync(command, words, { cwd, env: environment, encoding: 'utf8' });

const written = (name, events) => {
  fs.writeFileSync(path.join(folder, 'events.jsonl'), events);
  run(program, ['report', 'events.jsonl', '-o', name], folder);
  return path.join(folder, name);
};

/** A run with each hostile text in what the model says, calls and sees, in warnings, findings and names. */
const hostile = () => {
  const texts = JSON.parse(fs.readFileSync('fixtures/hostile-html/texts.json', 'utf8'));
  const all = texts.join('\n');
  const events = [{ event: 'run_started', run_id: 'r', session_id: 'r', cwd: all, model: all, tools: [], mcp_servers: [], permission_mode: 'default', policy: { name: all, sha256: '', layers: [] }, changes_mode: 'dry-run', sandbox: 'T3', limits: {}, git_head: null, git_dirty: false, recipe: null, replay: null, title: all }];
  texts.forEach((text, at) => {
    const usage = { input_tokens: 9, cache_read_input_tokens: 3, output_tokens: 2, reasoning_tokens: null };
    events.push({ event: 'assistant', parent: null, turn: at + 1, id: text, model: text, text, reasoning: '', calls: [{ id: '' + at, name: text, input: { command: text }, recovered: null }], stop_reason: 'tool_use', usage, cost_usd: null, requests: 1, api_ms: 10 });
    events.push({ event: 'tool_result', parent: null, turn: at + 1, call_id: '' + at, tool: text, description: text, is_error: at % 2 === 0, content: text, display: text, diff: false, duration_ms: 1 });
    events.push({ event: 'verify', command: text, exit_code: 1, attempt: at + 1, attempts: 0, duration_ms: 1, output_tail: text, passed: false });
    events.push({ event: 'warning', message: text });
  });
  const lines = all.split('\n').map((line) => '+' + line + '\n');
  const patch = `diff --git a/x.html b/x.html\nnew file mode 100644\n--- /dev/null\n+++ b/x.html\n@@ -0,0 +1,${lines.length} @@\n${lines.join('')}`;
  const finding = (text) => ({ rule_id: text, severity: 'note', path: text, start_line: 1, end_line: 1, quote: text, message: text, confidence: text });
  const changes = { mode: 'dry-run', base: all, files: [], patch, patch_sha256: require('node:crypto').createHash('sha256').update(patch).digest('hex'), patch_file: null, applied: false, rolled_back: false, policy_changed: false };
  events.push({ event: 'run_finished', exit: 'ok', error: null, result: all, structured: null, changes_expected: true, changes, branch: null, commit: null, findings: texts.map(finding), dropped: {}, duration_ms: 900 });
  return events.map((event) => JSON.stringify(event) + '\n').join('');
};

const copy = (name) => {
  const to = path.join(folder, name);
  fs.cpSync(path.join(fixture, 'project'), to, { recursive: true });
  return to;
};
const tree = (root) => Object.fromEntries(fs.readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.join(entry.parentPath, entry.name))
  .map((file) => [path.relative(root, file), fs.readFileSync(file, 'utf8')]).sort());

/** Opens a page; fails if it asks for anything else or writes an error. */
const opened = async (browser, file, options) => {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const wrong = [];
  page.on('request', (request) => { if (request.url() !== 'file://' + file && !request.url().startsWith('blob:')) wrong.push('a request: ' + request.url()); });
  page.on('console', (message) => { if (message.type() === 'error') wrong.push(message.text()); });
  page.on('pageerror', (error) => wrong.push(String(error)));
  await page.goto('file://' + file, { waitUntil: 'load' });
  return { page, done: async () => { await context.close(); assert.deepStrictEqual(wrong, []); } };
};

const accessible = async (page, what) => {
  await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  const shown = violations.map((of) => `${of.id}: ${of.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0] || {}).message).join(' | ')}`);
  assert.deepStrictEqual(shown, [], what);
};

const columns = (page) => page.evaluate(() => getComputedStyle(document.querySelector('.b')).gridTemplateColumns.split(' ').length);

const checks = {
  async looks(browser, file) {
    for (const [name, options] of Object.entries({
      light: { colorScheme: 'light', viewport: { width: 1360, height: 1000 } },
      dark: { colorScheme: 'dark', viewport: { width: 1360, height: 1000 } },
      narrow: { colorScheme: 'light', viewport: { width: 360, height: 800 } },
      'narrow-dark': { colorScheme: 'dark', viewport: { width: 360, height: 800 } },
    })) {
      const { page, done } = await opened(browser, file, options);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
      const hidden = await page.evaluate(async () => {
        // What comes into view gets its real height, so the end moves.
        for (let time = 0; time < 20; time++) {
          scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' });
          await new Promise(requestAnimationFrame);
        }
        const bar = document.querySelector('.pick').getBoundingClientRect();
        return document.querySelector('footer').getBoundingClientRect().bottom - bar.top;
      });
      assert.ok(hidden <= 0, `${name}: the bar covers ${hidden} pixels of the footer`);
      await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
      if (pictures) await page.screenshot({ path: path.join(pictures, name + '.png'), fullPage: true });
      await accessible(page, name);
      if (options.viewport.width > 1000) {
        await page.check('#split', { force: true });
        if (pictures) await page.locator('#changes').screenshot({ path: path.join(pictures, name + '-split.png') });
        await accessible(page, name + ', side by side');
      }
      await done();
    }
  },
  async keys(browser, file) {
    const { page, done } = await opened(browser, file, { viewport: { width: 1360, height: 900 } });
    assert.strictEqual(await columns(page), 1);
    await page.getByText('Side by side').click();
    assert.strictEqual(await columns(page), 2);
    await page.keyboard.press('u');
    assert.strictEqual(await columns(page), 1);
    await page.keyboard.press('s');
    assert.strictEqual(await columns(page), 2);
    await page.keyboard.press('j');
    await page.keyboard.press('Space');
    assert.match(await page.textContent('#picked'), /^3 of 4 hunks$/);
    await page.keyboard.press('c');
    await page.getByText('Copied').waitFor();
    await done();
  },
  async 'without script'(browser, file) {
    const { page, done } = await opened(browser, file, { javaScriptEnabled: false, viewport: { width: 1360, height: 900 } });
    for (const box of await page.locator('input[type=checkbox]').all()) assert.ok(!(await box.isVisible()));
    await page.getByText('Side by side').click();
    await done();
  },
  async choice(browser, file) {
    const choices = [[], ['1'], ['2'], ['2.1', '2.3'], ['2.2', '2.4', '2.5'], ['1', '3', '2.7'], ['4', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6']];
    for (const [at, left] of choices.entries()) {
      const { page, done } = await opened(browser, file, { viewport: { width: 1360, height: 900 } });
      for (const value of left) await page.uncheck(`input[value="${value}"]`);
      const command = await page.textContent('#command');
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save')]);
      const patch = path.join(folder, `chosen-${at}.patch`);
      await download.saveAs(patch);
      const [one, other] = [copy(`apply-${at}`), copy(`patch-${at}`)];
      const words = command.replace('qwen apply ', '').split(' ');
      run(program, ['apply', '--no-undo', path.join(folder, words[0]), ...words.slice(1)], one);
      run('git', ['apply', patch], other);
      assert.deepStrictEqual(tree(one), tree(other), command);
      assert.notDeepStrictEqual(tree(one), tree(path.join(fixture, 'project')), command);
      assert.ok(left.length === 0 || command.includes(' --hunks '), command);
      await done();
    }
  },
  async print(browser, file) {
    const { page, done } = await opened(browser, file, {});
    assert.ok((await page.pdf()).length > 10_000);
    await done();
  },
  async hostile(browser) {
    const file = written('hostile.html', hostile());
    const { page, done } = await opened(browser, file, { viewport: { width: 1360, height: 900 } });
    await accessible(page, 'hostile');
    assert.strictEqual(await page.evaluate(() => window.hit), undefined);
    assert.strictEqual(await page.evaluate(() => document.querySelectorAll('[onerror],[onload],[onclick],iframe,img,form').length), 0);
    await done();
  },
  async large(browser) {
    let patch = '';
    for (let at = 0; at < 5200; at++) {
      if (at % 100 === 0) patch += `diff --git a/f${at}.js b/f${at}.js\n--- a/f${at}.js\n+++ b/f${at}.js\n`;
      const line = '+' + 'x'.repeat(58) + '\n';
      patch += `@@ -${1 + (at % 100) * 10},2 +${1 + (at % 100) * 42},34 @@\n a\n${line.repeat(32)} b\n`;
    }
    const from = path.join(folder, 'large.patch');
    fs.writeFileSync(from, patch);
    run(program, ['report', from, '-o', 'large.html'], folder);
    const file = path.join(folder, 'large.html');
    assert.ok(fs.statSync(file).size <= 2.5 * patch.length);
    const { page, done } = await opened(browser, file, { viewport: { width: 1360, height: 900 } });
    assert.match(await page.textContent('#picked'), /^All 5200 hunks$/);
    await done();
  },
};

(async () => {
  const browser = await chromium.launch({ executablePath: process.env.BROWSER_PROGRAM, args: ['--no-sandbox'] });
  const file = written('report.html', fs.readFileSync(path.join(fixture, 'events.jsonl'), 'utf8'));
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check(browser, file);
      console.log('ok', name);
    } catch (error) {
      failed++;
      console.error('FAILED', name, error.message);
    }
  }
  await browser.close();
  fs.rmSync(folder, { recursive: true });
  process.exitCode = failed ? 1 : 0;
})();
