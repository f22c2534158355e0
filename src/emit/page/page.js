'use strict';
(() => {
  const $ = (q, e = document) => [...e.querySelectorAll(q)], id = (x) => document.getElementById(x);
  document.documentElement.classList.add('js');
  const out = id('command'), say = id('picked');
  const hunks = $('.hunk').map((el) => {
    const box = $('.hh input', el)[0];
    return { el, box, n: +box.value, parts: $('.part input', el) };
  });
  const some = (h) => (h.parts.length ? h.parts.some((p) => p.checked) : h.box.checked);
  const all = (h) => (h.parts.length ? h.parts.every((p) => p.checked) : h.box.checked);
  const file = (location.protocol === 'file:' && decodeURIComponent(location.pathname.split('/').pop())) || out.dataset.from;
  const name = file.startsWith('-') ? './' + file : file;
  const quote = (s) => (/^[\w.\/:=@%+-]+$/.test(s) ? s : "'" + s.replace(/'/g, "'\\''") + "'");
  const list = () => {
    const items = [];
    let last;
    for (const h of hunks) {
      if (!some(h)) continue;
      if (!all(h)) {
        items.push(...h.parts.filter((p) => p.checked).map((p) => p.value));
        last = undefined;
      } else if (last && last[1] === h.n - 1) {
        last[1] = h.n;
        items[items.length - 1] = last.join('-');
      } else {
        last = [h.n, h.n];
        items.push('' + h.n);
      }
    }
    return items.join(',');
  };
  const update = () => {
    for (const h of hunks) {
      h.box.checked = some(h);
      h.box.indeterminate = some(h) && !all(h);
      h.el.classList.toggle('off', !some(h));
      for (const p of h.parts) p.closest('.b').classList.toggle('off', !p.checked);
    }
    const taken = hunks.filter(some).length, halves = hunks.filter((h) => some(h) && !all(h)).length;
    const whole = taken === hunks.length && !halves;
    say.textContent = (whole ? 'All ' + taken : taken + ' of ' + hunks.length) + (hunks.length === 1 ? ' hunk' : ' hunks') + (halves ? ', ' + halves + ' in part' : '');
    out.textContent = taken ? 'qwen apply ' + quote(name) + (whole ? '' : ' --hunks ' + list()) : 'nothing is chosen';
    for (const b of $('.pick button')) b.disabled = !taken;
  };
  document.addEventListener('change', (e) => {
    const h = hunks.find((h) => h.box === e.target);
    if (h) for (const p of h.parts) p.checked = h.box.checked;
    if (e.target.type === 'checkbox') update();
  });
  id('copy').onclick = async (e) => {
    try { await navigator.clipboard.writeText(out.textContent); } catch {
      getSelection().selectAllChildren(out);
      document.execCommand('copy');
    }
    e.target.textContent = 'Copied';
    setTimeout(() => { e.target.textContent = 'Copy command'; }, 1500);
  };
  const chosen = (raw) => {
    const blob = [];
    for (const f of $('details.file')) {
      const [a, z] = f.dataset.head.split(' ').map(Number);
      const body = [];
      let shift = 0;
      for (const h of hunks.filter((h) => f.contains(h.el) && some(h))) {
        const [s, e] = h.el.dataset.at.split(' ').map(Number), eol = raw.indexOf(10, s) + 1;
        const m = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(String.fromCharCode(...raw.subarray(s, Math.min(eol, s + 80))));
        if (!m) { body.push(raw.subarray(s, e)); continue; }
        let o = 0, n = 0, run = 0, was = false, kept = true;
        const lines = [];
        for (let i = eol, j; i < e; i = j) {
          j = raw.indexOf(10, i) + 1 || e;
          let line = raw.subarray(i, j);
          const c = raw[i], change = c === 43 || c === 45;
          if (c !== 92) {
            if (change && !was) run++;
            was = change;
            kept = true;
            if (change && h.parts.length && !h.parts[run - 1].checked) {
              kept = c === 45;
              (line = line.slice())[0] = 32;
            }
            if (kept) { o += line[0] !== 43; n += line[0] !== 45; }
          }
          if (kept) lines.push(line);
        }
        const start = +m[1] + shift + (o ? 0 : 1) - (n ? 0 : 1);
        shift += n - o;
        body.push(`@@ -${m[1]},${o} +${start},${n} @@\n`, ...lines);
      }
      if (body.length) blob.push(raw.subarray(a, z), ...body);
    }
    return new Blob(blob, { type: 'text/x-diff' });
  };
  id('save').onclick = () => {
    const { changes } = JSON.parse(id('qwen-result').textContent);
    const raw = changes.patch == null ? Uint8Array.from(atob(changes.patch_base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(changes.patch);
    const href = URL.createObjectURL(chosen(raw));
    Object.assign(document.createElement('a'), { href, download: 'chosen.patch' }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  };
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const open = hunks.filter((h) => h.el.closest('details').open), at = open.findIndex((h) => h.el.contains(document.activeElement));
    const go = (h) => { if (h) { h.box.focus(); h.el.scrollIntoView({ block: 'center' }); } };
    const keys = { j: () => go(open[at + 1] || open[0]), k: () => go(open[at - 1] || open.at(-1)), u: () => id('unified').click(), s: () => id('split').click(), c: () => id('copy').click() };
    if (Object.hasOwn(keys, e.key)) { e.preventDefault(); keys[e.key](); }
  });
  update();
})();
