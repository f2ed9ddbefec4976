/* The runs: their peaks as bars, one for each or the highest of those on one pixel, and a list. */

class Steps {
  constructor(app) {
    this.app = app;
    this.canvas = byId('steps');
    this.zoom = new Zoom(() => this.draw());
    steer(this.canvas, {x: this.zoom}, () => this.box, (event) => {
      const run = this.runAt(event);
      if (run >= 0)
        this.app.chooseRun(run);
    });
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => app.tip(null));
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    byId('go-step').addEventListener('change', () => this.goTo(Number(byId('go-step').value)));
  }

  reset() {
    const {report} = this.app;
    this.pyramid = new Pyramid(Float64Array.from(report.runs.peak));
    this.top = 1.06 * Math.max(1, report.nRuns ? report.runs.peak[this.pyramid.largest(0, report.nRuns)] : 0);
    byId('steps-section').hidden = report.nRuns === 0;
    this.zoom.domain(0, report.nRuns, 1);
  }

  goTo(step) {
    const {report} = this.app;
    for (let i = 0; i < report.nRuns; i++)
      if (report.runs.step[i] === step) {
        this.app.chooseRun(i);
        return;
      }
    say(`there is no step ${step}`);
  }

  key(event) {
    const {app} = this, by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100, Home: -Infinity, End: Infinity}[event.key];
    if (by === undefined)
      return;
    event.preventDefault();
    event.stopPropagation();
    app.chooseRun(Math.min(app.report.nRuns - 1, Math.max(0, app.run + by)));
  }

  /* [first, last) of the runs on a column of pixels. */
  span(column) {
    const per = this.zoom.length / this.box.width, {nRuns} = this.app.report;
    const lo = Math.min(nRuns - 1, Math.floor(this.zoom.from + column * per));
    return [lo, Math.min(nRuns, Math.max(lo + 1, Math.ceil(this.zoom.from + (column + 1) * per)))];
  }

  runAt(event) {
    const column = Math.floor(event.offsetX - this.box.left);
    if (column < 0 || column >= this.box.width || !this.app.report.nRuns)
      return -1;
    const [lo, hi] = this.span(column);
    return this.pyramid.largest(lo, hi);
  }

  draw() {
    const {report, run} = this.app;
    if (byId('steps-section').hidden || !this.pyramid)
      return;
    const {to, width, height} = fitCanvas(this.canvas);
    this.box = {left: GUTTER, top: 4, width: Math.max(1, width - GUTTER - MARGIN), height: height - 8};
    to.font = '11px system-ui, sans-serif';
    to.textAlign = 'right';
    to.textBaseline = 'middle';
    const y = (bytes) => this.box.top + this.box.height * (1 - bytes / this.top);
    to.fillStyle = theme.faint;
    const marks = axisBytes(this.top);
    for (const bytes of ticks(0, this.top, 3, true)) {
      to.fillText(marks(bytes), GUTTER - 6, Math.max(8, y(bytes)));
      to.fillRect(GUTTER, Math.round(y(bytes)), this.box.width, 0.5);
    }
    const gap = this.box.width / this.zoom.length > 4 ? 1 : 0;
    for (let i = 0; i < this.box.width; i++) {
      const [lo, hi] = this.span(i), at = this.pyramid.largest(lo, hi);
      const starts = i === 0 || this.span(i - 1)[0] !== lo;
      if (gap && starts)
        continue;
      to.fillStyle = lo <= run && run < hi ? theme.accent : report.runs.program[at] % 2 ? theme.other : theme.faint;
      const peak = report.runs.peak[at];
      to.fillRect(GUTTER + i, y(peak), 1, this.box.top + this.box.height - y(peak));
    }
    this.drawList();
  }

  hover(event) {
    const run = event.buttons ? -1 : this.runAt(event), {report} = this.app;
    if (run < 0) {
      this.app.tip(null);
      return;
    }
    this.app.tip(event, h('strong', {}, report.stepText(run)), ...this.facts(run).map(([name, text]) =>
      h('div', {}, `${name} ${text}`)));
  }

  timed(run) {
    return this.app.report.runs.clock[run] !== UNTIMED && this.app.report.runs.ns[run] > 0;
  }

  facts(run) {
    const {report} = this.app, runs = report.runs, out = [];
    out.push(['program', report.programs[runs.program[run]].title()], ['peak', fmtBytes(runs.peak[run])]);
    PHASES.forEach((phase, k) => {
      const peak = report.phases[k].peak[run];
      if (peak)
        out.push([`in ${phase}`, fmtBytes(peak)]);
    });
    if (this.timed(run))
      out.push(['time', fmtNs(runs.ns[run])]);
    if (!Number.isNaN(runs.loss[run]))
      out.push(['loss', runs.loss[run].toPrecision(5)]);
    return out;
  }

  /* Around the chosen run. */
  drawList() {
    const {report, run} = this.app, runs = report.runs;
    const from = Math.max(0, Math.min(run - 5, report.nRuns - 12)), rows = [];
    let most = 0;
    for (let i = from; i < Math.min(report.nRuns, from + 12); i++)
      most = Math.max(most, this.timed(i) ? runs.ns[i] : 0);
    const time = timesUpTo(most);
    for (let i = from; i < Math.min(report.nRuns, from + 12); i++)
      rows.push(h('tr', {class: i === run ? 'chosen' : '', onclick: () => this.app.chooseRun(i)},
        h('th', {scope: 'row'}, report.stepText(i)), h('td', {}, report.programs[runs.program[i]].title()),
        h('td', {class: 'number'}, bytesCell(runs.peak[i])),
        h('td', {class: 'number'}, i ? bytesCell(runs.peak[i] - runs.peak[i - 1], true) : ''),
        h('td', {class: 'number'}, this.timed(i) ? time(runs.ns[i]) : ''),
        h('td', {class: 'number'}, Number.isNaN(runs.loss[i]) ? '' : runs.loss[i].toPrecision(5))));
    byId('step-list').replaceChildren(h('thead', {}, h('tr', {}, ...['step', 'program', 'peak', 'change', 'time', 'loss']
      .map((title, k) => h('th', {scope: 'col', class: k > 1 ? 'number' : ''}, title)))), h('tbody', {}, ...rows));
  }
}
