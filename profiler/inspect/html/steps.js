/* The runs: their peaks as bars, one for each or the highest of those on one pixel, and a list. */

class Steps {
  constructor(app) {
    this.app = app;
    this.canvas = byId('steps');
    this.canvas.addEventListener('click', (event) => app.chooseRun(this.runAt(event)));
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => app.tip(null));
    byId('go-step').addEventListener('change', () => this.goTo(Number(byId('go-step').value)));
  }

  goTo(step) {
    const {report} = this.app;
    for (let i = 0; i < report.nRuns; i++)
      if (report.runs.step[i] === step) {
        this.app.chooseRun(i);
        return;
      }
  }

  /* [first, last) of the runs on a column of pixels. */
  span(column) {
    const {nRuns} = this.app.report, per = nRuns / this.chart.box.width, lo = Math.min(nRuns - 1, Math.floor(column * per));
    return [lo, Math.min(nRuns, Math.max(lo + 1, Math.ceil((column + 1) * per)))];
  }

  runAt(event) {
    const column = columnAt(this.chart, event), {report} = this.app;
    return column < 0 ? -1 : largest(report.runs.peak, ...this.span(column));
  }

  draw() {
    const {report, run} = this.app, {peak, program} = report.runs;
    byId('steps-section').hidden = report.nRuns === 0;
    if (report.nRuns === 0)
      return;
    this.chart = chartOf(this.canvas, 1.06 * Math.max(1, peak[largest(peak, 0, report.nRuns)]), 4, 4);
    const {to, box, yOf} = this.chart, gap = box.width / report.nRuns > 4;
    for (let i = 0; i < box.width; i++) {
      const [lo, hi] = this.span(i), at = largest(peak, lo, hi);
      if (gap && (i === 0 || this.span(i - 1)[0] !== lo))
        continue;
      to.fillStyle = lo <= run && run < hi ? ACCENT : program[at] % 2 ? OTHER : FAINT;
      to.fillRect(box.left + i, yOf(peak[at]), 1, yOf(0) - yOf(peak[at]));
    }
    this.drawList();
  }

  hover(event) {
    const run = this.runAt(event), {report} = this.app;
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
