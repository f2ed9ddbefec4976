/* The page in a headless Chromium without a network: what it shows is compared with the profile
 * itself, and it is used by mouse.
 *
 *     node test_browser.mjs MAKE_PAGE STEPWELL [PART]
 *
 * PART: only tests whose name contains it. With STEPWELL_TESTS=quick the large pages have a tenth of their size. $CHROMIUM names the browser; $STEPWELL_SHOTS a folder
 * for pictures to look at. Exit status 77, a skip, where there is no browser. */
import assert from 'node:assert/strict';
import {execFileSync, spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Browser} from './browser.mjs';

const [makePage, stepwell, part = ''] = process.argv.slice(2);
const program = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)
  .find((name) => spawnSync(name, ['--version'], {stdio: 'ignore'}).status === 0);
if (!program) {
  console.log('html browser: skipped, no Chromium (name one by CHROMIUM)');
  process.exit(77);
}

const size = process.env.STEPWELL_TESTS === 'quick' ? 0.1 : 1;
const folder = mkdtempSync(join(tmpdir(), 'stepwell-html-'));
const file = (name) => join(folder, name);
const made = new Map();
function pageOf(kind) {
  if (!made.has(kind)) {
    execFileSync(makePage, [kind, file(`${kind}.html`)]);
    made.set(kind, file(`${kind}.html`));
  }
  return made.get(kind);
}

/* A run of our own, its page, and what its profile says, read without the code under test. */
function train(name, ...more) {
  execFileSync(stepwell, ['train', '--model', 'lenet5', '--synthetic-n', '512', '--steps', '3', '--profile', file(`${name}.jsonl`), ...more],
    {stdio: 'ignore'});
  execFileSync(stepwell, ['report', file(`${name}.jsonl`), '--html', file(`${name}.html`)], {stdio: 'ignore'});
  const records = readFileSync(file(`${name}.jsonl`), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const plan = records.filter((r) => r.type === 'plan' && r.run === 'train').sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  const live = (op) => plan.values.filter((v) => v.alias === null || v.alias === undefined)
    .filter((v) => v.birth <= op && op <= v.death);
  const sum = (values) => values.reduce((all, v) => all + v.bytes + v.padding, 0);
  return {html: file(`${name}.html`), profile: file(`${name}.jsonl`), records, plan, live, sum};
}

let ours;
const lenet = () => ours || (ours = train('lenet'));
const MiB = (x) => x >= 1048576 ? `${(x / 1048576).toFixed(2)} MiB` : x >= 1024 ? `${(x / 1024).toFixed(2)} KiB` : `${x} B`;
const digits = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ',');

const browser = new Browser(program);
const pages = [];
async function open(html, how = {}) {
  const page = await browser.page(how);
  pages.push(page);
  await page.open(html, how);
  await page.settle(how.wait || 120);
  return page;
}

/* Where the middle of an op is in a chart, as a share of its width. */
const shareOf = (page, op) => page.evaluate(`(() => { const c = byId('timeline');
  return (app.timeline.pixelOf(${op}) + app.timeline.pixelOf(${op} + 1)) / 2 / c.clientWidth; })()`);
const near = (a, b, within) => assert.ok(Math.abs(a - b) <= within, `${a} is not ${b}`);
const shot = async (page, name, whole) => process.env.STEPWELL_SHOTS && page.shot(join(process.env.STEPWELL_SHOTS, name), whole);

const tests = {
  async 'the top says what the profile says'() {
    const {html, plan, live, sum} = lenet(), page = await open(html);
    await shot(page, 'light.png', true);
    assert.equal(await page.text('#peak-figure'), MiB(plan.peak_bytes));
    assert.equal(await page.evaluate(`document.querySelector('#peak-figure span').title`), `${digits(plan.peak_bytes)} bytes`);
    assert.match(await page.text('#peak-where'), new RegExp(`^${plan.peak_op.replace(/[()]/g, '\\$&')} \\(op ${plan.peak_position + 1} of ${plan.n_ops}\\)`));
    assert.match(await page.text('#verdict'), /^measured equals predicted, to the byte, in 3 runs$/);
    const rows = await page.evaluate(`[...document.querySelectorAll('#peak-roles tr')].map((r) => [r.cells[0].innerText,
      r.cells[1].innerText])`);
    const roles = {};
    for (const v of live(plan.peak_position))
      roles[v.role] = (roles[v.role] || 0) + v.bytes + v.padding;
    assert.deepEqual(Object.fromEntries(rows), Object.fromEntries(Object.entries(roles).map(([k, b]) => [k, digits(b)])));
    assert.equal(sum(live(plan.peak_position)), plan.peak_bytes);
    const phases = await page.evaluate(`[...document.querySelectorAll('#phases tbody tr')].map((r) => [...r.cells].slice(0, 4).map((c) => c.innerText))`);
    for (const [name, predicted, measured, equal] of phases) {
      assert.equal(predicted, digits(plan.phases[name].peak_bytes));
      assert.equal(measured, predicted);
      assert.equal(equal, '=');
    }
  },

  async 'names stand in their rectangles, and cards end with what is in them'() {
    const {html} = lenet(), page = await open(html, {width: 1300, height: 1000});
    const [written, rectangles] = await page.evaluate('[app.plan.written, app.plan.labels.length]');
    assert.ok(written.length > 1 && written.length < rectangles, `${written.length} of ${rectangles} names`);
    for (const {name, taken, wide} of written)
      assert.ok(taken > 4 * name.length && taken + 8 <= wide, `${name}: ${taken} of ${wide} pixels`);
    const below = await page.evaluate(`[...document.querySelectorAll('#run-view .card')].map((card) => card.getBoundingClientRect().bottom -
      Math.max(...[...card.children].filter((x) => !x.hidden).map((x) => x.getBoundingClientRect().bottom)))`);
    assert.equal(below.length, 4);
    for (const pixels of below)
      assert.ok(pixels < 24, `${pixels} pixels are empty at the end of a card`);
    assert.match(await page.text('#tensors'), /\t\([0-9,]+\)\t/);
    assert.match(await page.text('#in-place'), /^Bytes in parentheses: /);
    assert.equal(await page.evaluate(`byId('in-place').hidden`), false);
    await page.evaluate(`(() => { byId('search').value = 'parameter'; byId('search').dispatchEvent(new Event('input')); })()`);
    await page.settle(150);
    assert.equal(await page.evaluate(`byId('in-place').hidden`), true);
  },

  async 'the pointer finds what lives in the timeline'() {
    const {html, plan, live, sum} = lenet(), page = await open(html, {width: 1300, height: 1000});
    for (const op of [2, 9, plan.peak_position]) {
      await page.hover('#timeline', await shareOf(page, op), 0.9);
      assert.match(await page.text('#tip'), new RegExp(`^${MiB(sum(live(op)))} live`.replace('.', '\\.')));
      assert.ok((await page.text('#tip')).includes(plan.ops[op]));
    }
    await shot(page, 'hover.png');
    await page.click('#timeline', await shareOf(page, 9), 0.05);
    assert.equal(await page.text('#moment-title'), 'Live here');
    const top = await page.text('#moment tr');
    const largest = live(9).sort((a, b) => b.bytes - a.bytes)[0];
    assert.ok(top.includes(largest.name), `${top} is not ${largest.name}`);
    await page.mouse('mouseMoved', {x: 3, y: 3});
    assert.equal(await page.evaluate(`byId('tip').hidden`), true);
    await page.click('#timeline', await shareOf(page, plan.peak_position), 0.8); /* inside the stack */
    assert.match(await page.text('#moment-title'), /^Live at the peak: /);
  },

  async 'a rectangle of the plan leads to its tensor'() {
    const {html, plan} = lenet(), page = await open(html, {width: 1300, height: 1000});
    const steps = plan.values.filter((v) => v.segment === 'step' && (v.alias === null || v.alias === undefined));
    for (const v of steps.sort((a, b) => b.bytes * (b.death - b.birth + 1) - a.bytes * (a.death - a.birth + 1)).slice(0, 6)) {
      const place = await page.evaluate(`(() => { const c = byId('plan');
        return [app.timeline.pixelOf((${v.birth} + Math.min(${v.death} + 1, ${plan.n_ops})) / 2) / c.clientWidth,
          app.plan.yOf(${v.offset} + ${v.bytes} / 2) / c.clientHeight]; })()`);
      await page.hover('#plan', ...place);
      assert.ok((await page.text('#tip')).startsWith(v.name), `${await page.text('#tip')} is not ${v.name}`);
      await page.click('#plan', ...place);
      const chosen = await page.text('#chosen');
      assert.ok(chosen.includes(v.name) && chosen.includes(v.role) && chosen.includes(MiB(v.bytes)), chosen);
    }
    await shot(page, 'plan.png', true);
    await page.click('#to-peak');
    assert.equal(await page.text('#moment-title'), 'Live at the peak');
  },

  async 'tables sort, open and lead to the charts'() {
    const {html, plan, live, sum} = lenet(), page = await open(html, {height: 1400, wait: 500});
    const layers = {};
    for (const v of live(plan.peak_position))
      layers[v.layer || '(no layer)'] = (layers[v.layer || '(no layer)'] || 0) + v.bytes + v.padding;
    const rows = await page.evaluate(`[...document.querySelectorAll('#layers tbody tr')].map((r) => [r.cells[0].innerText, r.cells[1].innerText])`);
    for (const [name, bytes] of Object.entries(layers))
      assert.deepEqual(rows.find((r) => r[0] === name), [name, digits(bytes)]);
    const by = async (column) => {
      await page.evaluate(`document.querySelectorAll('#tensors thead button')[${column}].click()`);
      return page.evaluate(`[...document.querySelectorAll('#tensors tbody tr')].map((r) => r.cells[${column}].innerText)`);
    };
    const names = await by(0);
    assert.deepEqual(names, [...names].sort());
    assert.equal(await page.evaluate(`document.querySelectorAll('#tensors th')[0].getAttribute('aria-sort')`), 'ascending');
    const down = await by(0);
    assert.deepEqual(down, [...down].sort().reverse());
    const births = (await by(5)).map((text) => Number(text.replace(/,/g, '')));
    assert.deepEqual(births, [...births].sort((a, b) => b - a));
    const largest = plan.values.filter((v) => v.segment === 'step').sort((a, b) => b.bytes - a.bytes)[0];
    await by(4);
    await page.evaluate(`document.querySelector('#tensors tbody tr').click()`);
    assert.ok((await page.text('#chosen')).includes(MiB(largest.bytes)));
    const op = await page.evaluate('app.cursor.op');
    assert.ok(largest.birth <= op && op <= largest.death || sum([largest]) === 0);
    const wanted = plan.values.filter((v) => [v.name, v.layer, v.op, v.role, v.phase].join(' ').toLowerCase().includes('fc1') &&
      [v.name, v.layer, v.op, v.role, v.phase].some((text) => (text || '').includes('gradient')));
    await page.evaluate(`byId('search').focus()`);
    await page.type('fc1 gradient');
    await page.settle(150); /* it searches when the typing pauses */
    assert.equal(await page.text('#found'), `${wanted.length} of ${wanted.length} tensors`);
    assert.ok(wanted.length > 0 && wanted.length < plan.values.length);

    const tree = await open(pageOf('odd'), {height: 1400, wait: 500});
    const count = () => tree.evaluate(`document.querySelectorAll('#layers tbody tr').length`);
    const press = (which) => tree.evaluate(`document.querySelector('#layers tr[data-path="net"] button${which}').click()`);
    const closed = await count();
    await press('.twist');
    assert.ok(await count() > closed);
    assert.equal(await tree.evaluate(`document.querySelector('#layers tr[data-path="net"] button').getAttribute('aria-expanded')`), 'true');
    await press('.twist');
    assert.equal(await count(), closed);
    await press(':not(.twist)');
    assert.equal(await tree.evaluate(`byId('search').value`), 'net');
  },

  async 'names are text, whatever stands in them'() {
    const page = await open(pageOf('odd'), {width: 420, height: 900, wait: 500});
    assert.equal(await page.evaluate(`document.querySelectorAll('b').length`), 0);
    await page.evaluate(`byId('search').value = '</script><b>'; app.tensors.draw()`);
    assert.ok(await page.evaluate(`document.querySelectorAll('#tensors tbody tr').length`) > 0);
    assert.ok((await page.text('#tensors tbody th')).includes('</script><b>') || (await page.text('#tensors tbody')).includes('</script><b>'));
    await shot(page, 'narrow.png', true);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'it is wider than the screen');
  },

  async 'roles can be left out, segments shown'() {
    const {html} = lenet(), page = await open(html);
    const sum = () => page.evaluate('Math.max(...app.timeline.sums)');
    const all = await sum();
    await page.evaluate(`[...document.querySelectorAll('#legend button')].find((b) => b.innerText === 'gradient').click()`);
    await page.settle();
    assert.ok(await sum() < all);
    await page.evaluate(`[...document.querySelectorAll('#legend button')].find((b) => b.innerText === 'gradient').click()`);
    await page.settle();
    assert.equal(await sum(), all);
    const low = await page.evaluate('app.plan.layout.top');
    await page.click('#segments');
    await page.settle();
    assert.ok(await page.evaluate('app.plan.layout.top') > low);
    assert.equal(await page.evaluate(`byId('segments').getAttribute('aria-pressed')`), 'true');
  },

  async 'runs can be chosen'() {
    const {html, records} = lenet(), page = await open(html, {height: 1600}), run = () => page.evaluate('app.run');
    const steps = records.filter((r) => r.type === 'step');
    assert.equal(await page.evaluate('app.report.nRuns'), steps.length);
    await page.hover('#steps', 0.2, 0.5);
    assert.ok((await page.text('#tip')).includes(`in forward ${MiB(steps[0].phases.forward.peak_bytes)}`), await page.text('#tip'));
    await page.click('#steps', 0.1, 0.9);
    assert.equal(await run(), 0);
    assert.equal(await page.evaluate(`byId('go-step').value`), '1');
    await page.click('#steps', 0.999, 0.9);
    const title = await page.evaluate('app.program.title()');
    assert.ok((await page.text('#program option:checked')).startsWith(`${title}, peak `));
    assert.equal(await page.text('#peak-card h2'), `Peak of ${title}`);
    await page.evaluate(`app.chooseRun(1); app.setAxis('time')`);
    await page.settle();
    const second = steps[1].phases, ns = Object.values(second).reduce((all, phase) => all + phase.ns, 0);
    near(await page.evaluate('app.axis.finish'), ns, ns / 1000);
  },

  async 'contrasts can be read'() {
    const page = await open(lenet().html, {width: 1000, height: 700});
    await shot(page, 'small.png');
const ratios = await page.evaluate(`(() => {
  const lum = (color) => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = color; c.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const style = getComputedStyle(document.documentElement), out = [];
  for (const ground of ['--surface', '--raised'])
    for (const text of ['--ink', '--faint', '--accent', '--good', '--bad']) {
      const [a, b] = [lum(style.getPropertyValue(ground)), lum(style.getPropertyValue(text))].sort((x, y) => y - x);
      out.push([ground, text, (a + 0.05) / (b + 0.05)]);
    }
  return out; })()`);
for (const [ground, text, ratio] of ratios)
  assert.ok(ratio >= 4.5, `${text} on ${ground}: ${ratio.toFixed(2)}`);
  },

  async 'roles that lie on each other differ in lightness'() {
    const page = await open(pageOf('one'));
    const close = await page.evaluate(`(() => {
      const light = (c) => { const [r, g, b] = [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16) / 255)
        .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 116 * Math.cbrt(0.2126 * r + 0.7152 * g + 0.0722 * b) - 16; };
      return ROLE_ORDER.slice(1).filter((role, i) => Math.abs(light(ROLE_COLORS[role]) - light(ROLE_COLORS[ROLE_ORDER[i]])) < 12); })()`);
    assert.deepEqual(close, []);
    const decoded = await page.evaluate(`(() => { const fast = Uint8Array.fromBase64, out = [];
      for (const way of [fast, undefined]) { Uint8Array.fromBase64 = way; out.push([...decodeBase64('AAEC/w==')].join()); }
      return out; })()`);
    assert.deepEqual(decoded, ['0,1,2,255', '0,1,2,255'], 'older browsers decode too');
  },

  async 'two runs are compared, and the rows add up'() {
    const a = lenet(), b = train('other', '--batch', '64');
    execFileSync(stepwell, ['report', a.profile, '--diff', b.profile, '--html', file('both.html')], {stdio: 'ignore'});
    const page = await open(file('both.html'), {drawn: `byId('diff-figure')`});
    const change = a.plan.peak_bytes - b.plan.peak_bytes; // what --diff is asked about, less its base
    assert.ok(change !== 0);
    assert.equal(await page.evaluate(`document.querySelector('#diff-figure span').title`), `${digits(change)} bytes`);
    for (const by of ['role', 'op', 'layer']) {
      await page.click(`#by-${by}`);
      const cells = await page.evaluate(`[...document.querySelectorAll('#diff-rows tbody [data-bytes]')].map((c) => Number(c.dataset.bytes))`);
      assert.equal(cells.reduce((x, y) => x + y, 0), change, `by ${by}`);
      assert.ok(cells.length > 1);
      const marks = await page.evaluate(`[...document.querySelectorAll('#diff-rows [data-bytes]')].map((c) =>
        [Number(c.dataset.bytes), c.classList.contains('more'), c.classList.contains('less')])`);
      for (const [bytes, more, less] of marks)
        assert.ok(more === bytes > 0 && less === bytes < 0, 'growth is marked as growth');
    }
    await page.hover('#diff-curve', 0.5, 0.5);
    assert.match(await page.text('#tip'), /of the ops\s+A .*\s+B /);
    await shot(page, 'diff.png', true);
    await page.click('#tab-a');
    assert.equal(await page.text('#peak-figure'), MiB(a.plan.peak_bytes));
    await page.click('#tab-b');
    assert.equal(await page.text('#peak-figure'), MiB(b.plan.peak_bytes));
    await open(pageOf('two'), {drawn: `byId('diff-figure')`});
  },

  async 'it prints, and is as before afterwards'() {
    const {html} = lenet(), page = await open(html);
    await page.evaluate(`window.addEventListener('beforeprint', () => setTimeout(() => 0)); window.printed = [];
      for (const event of ['beforeprint', 'afterprint'])
        window.addEventListener(event, () => window.printed.push(byId('timeline').width))`);
    const width = await page.evaluate(`byId('timeline').width`);
    const pdf = await page.pdf(process.env.STEPWELL_SHOTS && join(process.env.STEPWELL_SHOTS, 'print.pdf'));
    const text = pdf.toString('latin1'), leaves = (text.match(/\/Type\s*\/Page\b/g) || []).length;
    assert.ok(leaves >= 2 && leaves <= 8, `${leaves} pages`);
    assert.ok((text.match(/\/Subtype\s*\/Image/g) || []).length >= 2, 'both charts are on the paper');
    assert.deepEqual(await page.evaluate('window.printed'), [1750, width]);
  },

  async 'a snapshot of another tool is a page too'() {
    const {profile, plan} = lenet();
    execFileSync(stepwell, ['report', profile, '--format', 'memory-viz', '--out', file('snapshot.pickle')], {stdio: 'ignore'});
    execFileSync(stepwell, ['report', file('snapshot.pickle'), '--html', file('snapshot.html')], {stdio: 'ignore'});
    const page = await open(file('snapshot.html'));
    assert.equal(await page.text('#peak-figure'), MiB(plan.peak_bytes));
    assert.match(await page.text('#peak-where'), /\(event \d+ of /);
    assert.match(await page.text('#verdict'), /^nothing was predicted/);
    await shot(page, 'snapshot.png', true);
  },

  async 'a file that was cut says so, a planted fault is seen'() {
    const {profile, records} = lenet(), whole = readFileSync(profile, 'utf8');
    writeFileSync(file('cut.jsonl'), whole.slice(0, whole.lastIndexOf('"type":"end"') - 40));
    execFileSync(stepwell, ['report', file('cut.jsonl'), '--html', file('cut.html')], {stdio: 'ignore'});
    const page = await open(file('cut.html'));
    assert.match(await page.text('#notes'), /The file has no end/);
    assert.match(await page.text('#grave'), /The file has no end/);
    assert.equal(spawnSync(stepwell, ['train', '--model', 'lenet5', '--steps', '1', '--memory-budget', '2MiB', '--profile', file('denied.jsonl')]).status, 4);
    execFileSync(stepwell, ['report', file('denied.jsonl'), '--html', file('denied.html')], {stdio: 'ignore'});
    const denied = await open(file('denied.html'));
    assert.match(await denied.text('#grave'), /^The run failed: does not fit: [0-9,]+ bytes are needed/);
    assert.match(await denied.text('#verdict'), /no run of it/);
    assert.ok(await denied.evaluate('app.program.peakBytes === app.program.words.peak_bytes'), 'the plan that did not fit is shown');
    await shot(denied, 'denied.png', true);
    assert.equal(records.at(-1).type, 'end');
    const good = await open(lenet().html);
    assert.equal(await good.text('#notes'), 'Nothing was left out.');
    assert.equal(await good.evaluate(`byId('grave').hidden`), true);
    const watched = await browser.page();
    await watched.open(lenet().html);
    await watched.evaluate(`fetch('http://127.0.0.1:9/').catch(() => 0)`);
    await watched.evaluate(`document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'})); console.log('x')`);
    await watched.evaluate(`setTimeout('document.title = 1')`).catch(() => 0);
    await watched.settle(200);
    assert.ok(watched.complaints().length >= 3, `${watched.complaints()}`);
    await browser.send('Target.closeTarget', {targetId: watched.targetId});
  },

  async 'what is found quickly is what a plain search finds'() {
    const page = await open(pageOf('odd'));
    const wrong = await page.evaluate(`(() => {
      const wrong = [];
      let state = 12345;
      const draw = (n) => { state = (Math.imul(state, 1103515245) + 12345) >>> 0; return Math.floor(state / 2 ** 32 * n); };
      const expect = (what, got, wanted) => { if (JSON.stringify(got) !== JSON.stringify(wanted)) wrong.push(what + ' ' + got + ' ' + wanted); };
      for (const n of [1, 15, 16, 17, 257, 5000]) {
        const x = Float64Array.from({length: n}, () => draw(n < 20 ? 5 : 1e9));
        for (let k = 0; k < ${2000 * size}; k++) {
          const lo = draw(n), hi = lo + 1 + draw(n - lo);
          expect('largest', largest(x, lo, hi), x.indexOf(Math.max(...x.subarray(lo, hi)), lo));
        }
        const all = [...x.keys()];
        expect('foremost', foremost(n, (i) => i % 3 !== 1, (i) => x[i], 20).rows,
          all.filter((i) => i % 3 !== 1).sort((a, b) => x[b] - x[a] || a - b).slice(0, 20));
      }
      for (const p of app.report.programs) {
        const values = [...Array(p.n).keys()], sum = (of, op) => of.filter((i) => p.lives(i, op)).reduce((all, i) => all + p.size[i], 0);
        const ops = [...Array(p.nOps).keys()];
        for (const op of ops) {
          expect('total', p.total[op], sum(values, op));
          expect('live', p.liveAt(op).sort((a, b) => a - b), values.filter((i) => p.size[i] > 0 && p.lives(i, op)));
        }
        for (let k = 0; k < 20; k++) {
          const some = values.filter(() => draw(3) === 0), most = Math.max(0, ...ops.map((op) => sum(some, op)));
          expect('few', mostOfFew(p, some), most);
          expect('many', mostOfMany(p, some), most);
        }
        p.report.runsOf(p).forEach((run) => {
          const axis = new Axis(p, p.report.edges(run));
          for (let k = 0; k < 50; k++) {
            const x0 = draw(axis.finish), x1 = x0 + 1 + draw(axis.finish - x0), [first, last] = axis.opsIn(x0, x1);
            const inside = ops.filter((op) => axis.edge(op) < x1 && axis.edge(op + 1) > x0);
            if (inside.length && axis.edge(first) < axis.edge(first + 1))
              expect('opsIn', [first, last], [inside[0], inside.at(-1) + 1]);
          }
        });
      }
      return wrong; })()`);
    assert.deepEqual(wrong, []);
    const n = 1000000 * size, million = await open(pageOf('events'), {seconds: 90});
    assert.deepEqual(await million.evaluate(`[3, 1999, ${n / 4}, ${n - 1}].filter((op) => {
      let sum = 0;
      for (let i = 0; i < app.program.n; i++)
        sum += app.program.lives(i, op) ? app.program.size[i] : 0;
      return sum !== app.program.total[op] || sum !== app.program.liveAt(op).reduce((all, i) => all + app.program.size[i], 0); })`), []);
  },

  async 'nothing, and hardly anything, is a page too'() {
    const page = await open(pageOf('nothing'));
    assert.match(await page.text('#peak-card'), /no program/);
    const one = await open(pageOf('one'));
    assert.equal(await one.text('#peak-figure'), '1.00 KiB');
    assert.match(await one.text('#notes'), /1 run has no clock/);
    await one.click('#plan', 0.5, 0.5);
    await one.click('#to-peak');
    assert.equal(await one.evaluate('app.cursor.op'), 0);
  },

  async 'a million events open and are searched'() {
    const n = 1000000 * size, page = await open(pageOf('events'), {width: 1400, height: 1000, seconds: 90});
    const opened = Number(await page.evaluate('document.body.dataset.opened'));
    await page.settle(600);
    await page.evaluate('app.drawCharts()');
    const frame = await page.evaluate('app.frameMs');
    const began = Date.now();
    await page.evaluate(`byId('search').value = 'block7.out'; app.tensors.draw()`);
    const searched = Date.now() - began;
    console.log(`  ${digits(n)} events: ${(readFileSync(pageOf('events')).length / 1e6).toFixed(1)} MB, drawn ${opened} ms after the click; ` +
      `a frame ${frame.toFixed(1)} ms, searched in ${searched} ms`);
    await shot(page, 'million.png', true);
    assert.ok(opened < 20000 && frame < 500 && searched < 10000);
    await page.hover('#plan', 0.5, 0.97);
    assert.match(await page.text('#tip'), /^block\d+\.out/);
  },

  async 'a hundred thousand runs open'() {
    const n = 100000 * size, page = await open(pageOf('runs'), {seconds: 60});
    assert.equal(await page.evaluate('app.report.nRuns'), n);
    console.log(`  ${digits(n)} runs: drawn ${await page.evaluate('document.body.dataset.opened')} ms after the click`);
    await page.evaluate(`byId('go-step').value = ${n / 2}; byId('go-step').dispatchEvent(new Event('change'))`);
    assert.equal(await page.evaluate('app.report.runs.step[app.run]'), n / 2);
    await shot(page, 'runs.png', true);
  },
};

let passed = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (!name.includes(part))
    continue;
  pages.length = 0;
  const began = Date.now();
  try {
    await test();
    for (const page of pages) {
      assert.deepEqual(page.complaints(), [], 'the page complains');
      const asked = page.requests();
      assert.equal(asked.length, 1, `it asks for more than itself: ${asked.map((url) => url.slice(0, 100))}`);
    }
    passed++;
    console.log(`html browser: ${name} ok (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`html browser: ${name} FAILED\n${error.stack}\n${pages.map((page) => page.complaints().join('\n')).join('\n')}`);
  }
  for (const page of pages)
    await browser.send('Target.closeTarget', {targetId: page.targetId});
}
await browser.close();
rmSync(folder, {recursive: true, force: true});
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
