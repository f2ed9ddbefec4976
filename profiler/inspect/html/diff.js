/* Two runs side by side: rows that add up to the whole difference of their peaks, the phases, both
 * curves, and the tensors that only one has or whose bytes changed. A is the run that the report is
 * about, B the one that it is compared with: changes are A less B, and growth is red. */

/* Bytes at the peak by what `of` names, as a Map. */
function atPeakBy(program, of) {
  const sums = new Map();
  for (let i = 0; i < program.n; i++)
    if (program.size[i] > 0 && program.lives(i, program.peak)) {
      const name = of(i);
      sums.set(name, (sums.get(name) || 0) + program.size[i]);
    }
  return sums;
}

/* Rows {name, a, b} of two maps, the largest change first. */
function pairUp(a, b) {
  const names = new Set([...a.keys(), ...b.keys()]);
  return [...names].map((name) => ({name, a: a.get(name) || 0, b: b.get(name) || 0})).sort((x, y) =>
    Math.abs(y.a - y.b) - Math.abs(x.a - x.b) || y.a - x.a || (x.name < y.name ? -1 : 1));
}

class Diff {
  constructor(app, a, b) {
    Object.assign(this, {app, a, b, by: 'layer'});
    this.canvas = byId('diff-curve');
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => app.tip(null));
    for (const name of ['layer', 'role', 'op'])
      byId(`by-${name}`).addEventListener('click', () => {
        this.by = name;
        this.drawRows();
      });
  }

  draw() {
    const {a, b} = this;
    const change = a.peakBytes - b.peakBytes;
    byId('diff-head').replaceChildren(
      h('p', {class: 'figure', id: 'diff-figure'}, bytesElement(change, true)),
      h('p', {class: 'where'}, 'peak of A less peak of B', change && b.peakBytes ?
        `, ${change > 0 ? '+' : ''}${fmtShare(change, b.peakBytes)} of the peak of B` : ''),
      h('table', {class: 'plain'}, h('tbody', {}, ...[['A', a], ['B', b]].map(([name, program]) => h('tr', {},
        h('th', {scope: 'row'}, `${name}: ${program.report.words.path || program.report.words.model}${program.report.own ? `, ${program.title()}` : ''}`),
        h('td', {class: 'number'}, bytesCell(program.peakBytes)),
        h('td', {}, `${program.opText('name', program.peak)}, ${PHASES[program.ops.phase[program.peak]] || ''}`))))));
    this.drawPhases();
    this.drawRows();
    this.drawTensors();
    this.drawCurve();
  }

  /* A figure that another tool's frames do not give is unknown, not 0. */
  row(name, a, b, tag, unknown = [false, false]) {
    const cell = (bytes, k) => h('td', {class: 'number'}, unknown[k] ? 'unknown' : bytes ? bytesCell(bytes) : '');
    if (unknown[0] || unknown[1])
      return h('tr', {}, h('th', {scope: 'row'}, name), cell(a, 0), cell(b, 1), h('td', {class: 'number'}, 'unknown'));
    return h('tr', {}, h(tag || 'th', {scope: tag ? null : 'row'}, name), cell(a, 0), cell(b, 1),
      h('td', {class: `number ${a > b ? 'more' : a < b ? 'less' : ''}`, 'data-bytes': a - b}, b === a ? '0' : bytesCell(a - b, true)));
  }

  head(what) {
    return h('thead', {}, h('tr', {}, ...[what, 'A', 'B', 'A \u2212 B'].map((title, k) =>
      h('th', {scope: 'col', class: k ? 'number' : ''}, title))));
  }

  drawPhases() {
    const most = (program, k) => {
      const {report} = program;
      return report.runsOf(program).reduce((peak, run) => Math.max(peak, report.phases[k].peak[run]),
        program.words.phases[k].peak_bytes);
    };
    byId('diff-phases').replaceChildren(this.head('phase'), h('tbody', {}, ...PHASES.map((phase, k) =>
      this.row(phase, most(this.a, k), most(this.b, k), null,
        [this.a, this.b].map((program) => !program.report.own && !most(program, k))))));
  }

  /* The rows are a partition of what lives at either peak, so they add up by construction; the last
   * row is their sum, not the difference of the peaks. */
  drawRows() {
    const of = (program) => ({layer: (i) => program.text('layer', i) || '(no layer)',
      role: (i) => program.roles[program.roleOf[i]], op: (i) => program.text('op', i) || '(there before the run)'}[this.by]);
    const rows = pairUp(atPeakBy(this.a, of(this.a)), atPeakBy(this.b, of(this.b)));
    const sum = (name) => rows.reduce((all, row) => all + row[name], 0), shown = rows.slice(0, 300), rest = rows.slice(300);
    const body = shown.map((row) => this.row(row.name, row.a, row.b));
    if (rest.length)
      body.push(this.row(`${fmtInt(rest.length)} more`, rest.reduce((all, row) => all + row.a, 0),
        rest.reduce((all, row) => all + row.b, 0)));
    byId('diff-rows').replaceChildren(this.head(this.by), h('tbody', {}, ...body),
      h('tfoot', {}, this.row('together', sum('a'), sum('b'))));
    for (const name of ['layer', 'role', 'op'])
      byId(`by-${name}`).setAttribute('aria-pressed', String(name === this.by));
  }

  drawTensors() {
    const key = (program) => (i) => [program.text('name', i), program.text('layer', i),
      program.roles[program.roleOf[i]]].join('\u0000');
    const rows = pairUp(atPeakBy(this.a, key(this.a)), atPeakBy(this.b, key(this.b))).filter((row) => row.a !== row.b);
    byId('diff-tensors').replaceChildren(this.head('tensor'), h('tbody', {}, ...rows.slice(0, 50).map((row) => {
      const [name, layer, role] = row.name.split('\u0000');
      return this.row(h('span', {title: layer}, swatch(role), name), row.a, row.b);
    })));
    byId('diff-count').textContent = rows.length > 50 ? `the 50 largest of ${fmtInt(rows.length)} changes` :
      `${fmtInt(rows.length)} tensors at the peak differ`;
  }

  /* Both from begin to end of a run, as shares of their ops. */
  drawCurve() {
    if (byId('diff-view').hidden)
      return;
    this.chart = chartOf(this.canvas, 1.06 * Math.max(1, this.a.peakBytes, this.b.peakBytes), 6, 22);
    const {to, box} = this.chart;
    markX(this.chart, 1, (x) => `${+(100 * x).toPrecision(4)} %`);
    to.lineWidth = 1.6;
    for (const [program, color, dash] of [[this.a, INK, []], [this.b, ACCENT, [6, 3]]]) {
      to.beginPath();
      traceSteps(this.chart, Float64Array.from({length: box.width}, (_, i) => this.at(program, i)));
      to.strokeStyle = color;
      to.setLineDash(dash);
      to.stroke();
    }
  }

  at(program, column) {
    if (!program.nOps)
      return 0;
    const per = program.nOps / this.chart.box.width, lo = Math.min(program.nOps - 1, Math.floor(column * per));
    return program.total[largest(program.total, lo, Math.min(program.nOps, Math.max(lo + 1, Math.ceil((column + 1) * per))))];
  }

  hover(event) {
    const column = columnAt(this.chart, event);
    this.app.tip(column < 0 ? null : event, h('strong', {}, `${(100 * column / this.chart.box.width).toFixed(1)} % of the ops`),
      ...[['A', this.a], ['B', this.b]].map(([name, program]) => h('div', {}, `${name} ${fmtBytes(this.at(program, column))}`)));
  }
}
