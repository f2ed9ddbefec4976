/* The page's state and what happens when it changes: which run is looked at, where the cursor is,
 * which tensor is chosen. Charts are drawn at most once a frame. */

class App {
  constructor() {
    this.reports = [new Report(0)];
    if (byId('t1'))
      this.reports.push(new Report(1));
    this.selected = -1;
    this.summary = new Summary(this);
    this.timeline = new Timeline(this);
    this.plan = new Plan(this);
    this.steps = new Steps(this);
    this.layers = new Layers(this);
    this.tensors = new Tensors(this);
    this.unit = 'ops';
    this.bindControls();
    this.openReport(0);
    if (this.reports.length > 1)
      this.openDiff();
  }

  bindControls() {
    byId('to-peak').addEventListener('click', () => this.program && this.moveCursor(this.program.peak));
    byId('print').addEventListener('click', () => window.print());
    byId('segments').addEventListener('click', () => {
      this.plan.all = !this.plan.all;
      byId('segments').setAttribute('aria-pressed', String(this.plan.all));
      this.redraw();
    });
    byId('unit').addEventListener('change', () => this.setAxis(byId('unit').value));
    byId('program').addEventListener('change', () => this.chooseProgram(Number(byId('program').value)));
  }

  /* ---- which run ------------------------------------------------------------------------- */

  openReport(which) {
    this.report = this.reports[which];
    this.program = this.report.main;
    document.body.classList.toggle('empty', !this.program);
    byId('program').replaceChildren(...this.report.programs.map((program, i) => h('option', {value: i},
      program.report.own ? `${program.title()}, peak ${fmtBytes(program.peakBytes)}` : program.title())));
    this.steps.draw();
    this.chooseProgram(this.report.programs.indexOf(this.program));
  }

  chooseProgram(index) {
    this.program = this.report.programs[index] || null;
    if (!this.program) {
      this.summary.draw();
      document.body.dataset.opened = String(Math.round(performance.now()));
      return;
    }
    const runs = this.report.runsOf(this.program);
    this.run = runs.length ? runs[runs.length - 1] : -1;
    this.lookAt();
  }

  /* The run and the program that were chosen. */
  lookAt() {
    const {report, run} = this;
    this.cursor = {op: this.program.peak};
    this.role = null;
    this.selected = -1;
    byId('program').value = this.program.index;
    byId('unit-time').disabled = !(run >= 0 && report.runs.clock[run] !== UNTIMED);
    byId('unit-ops').textContent = `${report.word}s`;
    this.summary.draw();
    this.drawLegend();
    this.later(() => this.layers.draw());
    this.later(() => this.tensors.draw());
    this.setAxis(this.unit);
  }

  chooseRun(run) {
    const {report} = this;
    if (!(run >= 0 && run < report.nRuns))
      return;
    const program = report.programs[report.runs.program[run]];
    this.run = run;
    byId('go-step').value = report.runs.step[run];
    if (program === this.program) {
      this.setAxis(this.unit);
    } else {
      this.program = program;
      this.lookAt();
    }
  }

  /* 'ops' or 'time'. */
  setAxis(unit) {
    this.unit = byId('unit-time').disabled ? 'ops' : unit;
    byId('unit').value = this.unit;
    this.axis = new Axis(this.program, this.unit === 'time' ? this.report.edges(this.run) : null);
    this.steps.draw();
    this.drawMoment();
    this.redraw();
  }

  /* ---- the cursor ------------------------------------------------------------------------ */

  moveCursor(op, role) {
    this.cursor = {op};
    this.role = role || null;
    this.redraw();
    this.drawMoment();
  }

  /* ---- the chosen tensor ------------------------------------------------------------------ */

  select(i) {
    this.selected = i;
    for (const row of byId('tensors').querySelectorAll('tr[data-value]'))
      row.classList.toggle('chosen', Number(row.dataset.value) === i);
    this.redraw();
    this.drawMoment();
  }

  /* From a table: the cursor goes where it lives. */
  goToValue(i) {
    if (!this.program.lives(i, this.cursor.op))
      this.moveCursor(this.program.birth[i]);
    this.select(i);
  }

  /* ---- drawing --------------------------------------------------------------------------- */

  opTitle(program, op) {
    const layer = program.opText('layer', op);
    return `${program.report.word} ${fmtInt(op + 1)} of ${fmtInt(program.nOps)}: ${short(program.opText('name', op))}, ${PHASES[program.ops.phase[op]]}` +
      (layer ? `, layer ${short(layer)}` : '');
  }

  /* Of all programs of the report, so that colours and order stay. */
  roles() {
    if (this.rolesOf !== this.report) {
      this.rolesOf = this.report;
      const all = new Set(this.report.programs.flatMap((program) => program.roles));
      this.allRoles = [...ROLE_ORDER.filter((role) => all.has(role)), ...[...all].filter((role) => !ROLE_ORDER.includes(role))];
    }
    return this.allRoles;
  }

  drawLegend() {
    byId('legend').replaceChildren(...this.roles().map((role) => h('button', {type: 'button', class: 'chip',
      'aria-pressed': String(!this.timeline.hidden.has(role)), onclick: (event) => {
        const {hidden} = this.timeline;
        if (!hidden.delete(role))
          hidden.add(role);
        event.currentTarget.setAttribute('aria-pressed', String(!hidden.has(role)));
        this.redraw();
      }}, swatch(role), role)));
  }

  /* The values that live while the op at the cursor runs, and the chosen tensor. */
  drawMoment() {
    const {program, cursor, selected} = this;
    if (!program.nOps)
      return;
    const live = program.liveAt(cursor.op), wanted = this.role ? live.filter((i) =>
      program.roles[program.roleOf[i]] === this.role) : live;
    const at = cursor.op === program.peak ? 'Live at the peak' : 'Live here';
    byId('moment-title').textContent = this.role ? `${at}: ${this.role}` : at;
    byId('moment-where').textContent = `${fmtBytes(program.total[cursor.op])}, ${this.opTitle(program, cursor.op)}`;
    byId('moment').replaceChildren(h('tbody', {}, ...wanted.slice(0, 14).map((i) => h('tr', {class: i === selected ? 'chosen' : '',
      onclick: () => this.select(i)}, h('td', {}, h('button', {type: 'button', class: 'link', title: program.text('op', i)},
      swatch(program.roles[program.roleOf[i]]), h('span', {}, breakable(program.nameOf(i))))),
    h('td', {class: 'number'}, bytesCell(program.size[i])),
    h('td', {class: 'number'}, fmtShare(program.size[i], program.total[cursor.op]))))));
    byId('moment-rest').textContent = wanted.length > 14 ? `and ${fmtInt(wanted.length - 14)} smaller ones, ` +
      fmtBytes(wanted.slice(14).reduce((sum, i) => sum + program.size[i], 0)) : '';
    byId('chosen').hidden = selected < 0;
    byId('chosen').replaceChildren(...(selected < 0 ? [] : [h('h3', {}, 'Chosen tensor'), ...valueLines(program, selected),
      ...(program.alias[selected] ? [h('div', {}, `in the place of ${program.text('name', program.alias[selected] - 1)}`)] : [])]));
  }

  redraw() {
    if (this.waiting || !this.axis)
      return;
    this.waiting = true;
    requestAnimationFrame(() => this.drawCharts());
  }

  drawCharts() {
    this.waiting = false;
    if (!this.program || byId('run-view').hidden)
      return;
    const began = performance.now();
    this.timeline.draw();
    this.plan.draw();
    this.frameMs = performance.now() - began;
    if (!this.opened) {
      this.opened = performance.now();
      document.body.dataset.opened = String(Math.round(this.opened));
    }
  }

  /* Work that the first picture need not wait for. */
  later(act) {
    setTimeout(act, this.opened ? 0 : 30);
  }

  /* A note beside the pointer; null hides it. */
  tip(event, ...lines) {
    const tip = byId('tip');
    tip.hidden = !event;
    if (!event)
      return;
    tip.replaceChildren(...lines);
    const left = event.clientX + 14, top = event.clientY + 14;
    tip.style.left = `${left + tip.offsetWidth > innerWidth - 8 ? Math.max(4, event.clientX - 14 - tip.offsetWidth) : left}px`;
    tip.style.top = `${top + tip.offsetHeight > innerHeight - 8 ? Math.max(4, event.clientY - 14 - tip.offsetHeight) : top}px`;
  }

  drawAll() {
    this.drawCharts();
    if (this.program)
      this.steps.draw();
    if (this.diff)
      this.diff.drawCurve();
  }

  /* ---- two runs -------------------------------------------------------------------------- */

  openDiff() {
    const [a, b] = this.reports.map((report) => report.main);
    byId('tabs').hidden = false;
    const views = ['a', 'b', 'diff'];
    for (const name of views)
      byId(`tab-${name}`).addEventListener('click', () => this.show(name));
    if (a && b)
      this.diff = new Diff(this, a, b);
    this.show('diff');
  }

  show(view) {
    this.view = view;
    for (const name of ['a', 'b', 'diff'])
      byId(`tab-${name}`).setAttribute('aria-selected', String(name === view));
    byId('diff-view').hidden = view !== 'diff';
    this.summary.head(view === 'diff' ? this.reports : [this.reports[view === 'a' ? 0 : 1]]);
    byId('run-view').hidden = view === 'diff';
    if (view === 'diff')
      this.diff && this.diff.draw();
    else
      this.openReport(view === 'a' ? 0 : 1);
  }
}

const app = new App();
document.title = `${app.report.words.model || app.report.words.path || 'run'} - stepwell report`;
window.addEventListener('resize', () => chartOf.printing || app.drawAll());
for (const [event, printing] of [['beforeprint', true], ['afterprint', false]])
  window.addEventListener(event, () => {
    chartOf.printing = printing;
    app.drawAll();
  });
