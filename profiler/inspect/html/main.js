/* The page's state and what happens when it changes: which run is looked at, where the cursor is,
 * which tensor is chosen. Charts are drawn at most once a frame. */

class App {
  constructor() {
    this.reports = [new Report(0)];
    if (byId('t1'))
      this.reports.push(new Report(1));
    this.zoom = new Zoom(() => this.redraw());
    this.selected = -1;
    this.summary = new Summary(this);
    this.timeline = new Timeline(this);
    this.overview = new Overview(this);
    this.plan = new Plan(this);
    this.steps = new Steps(this);
    this.layers = new Layers(this);
    this.tensors = new Tensors(this);
    this.unit = 'ops';
    this.scope = 'run';
    this.bindControls();
    this.openReport(0);
    if (this.reports.length > 1)
      this.openDiff();
  }

  bindControls() {
    const on = (id, act) => byId(id).addEventListener('click', act);
    on('zoom-in', () => this.zoom.by(0.5, this.middle()));
    on('zoom-out', () => this.zoom.by(2, this.middle()));
    on('zoom-fit', () => {
      this.zoom.fit();
      this.plan.zoomY.fit();
    });
    on('to-peak', () => this.toPeak());
    on('theme', () => this.changeTheme());
    on('print', () => window.print());
    on('show-help', () => byId('help').showModal());
    on('segments', () => {
      this.plan.all = !this.plan.all;
      byId('segments').setAttribute('aria-pressed', String(this.plan.all));
      this.plan.reset();
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
    this.steps.reset();
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
    this.cursor = {instance: 0, op: this.program.peak};
    this.selected = -1;
    this.showProgram();
    this.setAxis(this.unit);
  }

  showProgram() {
    byId('program').value = this.program.index;
    const {report, run} = this, timed = run >= 0 && report.runs.clock[run] !== UNTIMED;
    byId('unit-time').disabled = !timed;
    byId('unit-all').disabled = report.nRuns < 2;
    byId('unit-ops').textContent = `${report.word}s`;
    this.summary.draw();
    this.drawLegend();
    this.later(() => this.layers.draw());
    this.later(() => this.tensors.draw());
  }

  chooseRun(run) {
    const {report} = this;
    if (!(run >= 0 && run < report.nRuns))
      return;
    const program = report.programs[report.runs.program[run]];
    this.run = run;
    if (this.scope === 'all' && this.axis.runs.includes(run)) {
      this.moveCursor(this.axis.runs.indexOf(run), program.peak);
      this.zoom.show(this.cursorX());
    } else if (program !== this.program) {
      this.program = program;
      this.cursor = {instance: 0, op: program.peak};
      this.selected = -1;
      this.showProgram();
      this.setAxis(this.unit);
    } else if (this.unit === 'time') {
      this.setAxis('time');
    }
    byId('go-step').value = report.runs.step[run];
    const at = run + 0.5;
    if (at < this.steps.zoom.from || at > this.steps.zoom.to)
      this.steps.zoom.set(at - this.steps.zoom.length / 2, at + this.steps.zoom.length / 2);
    else
      this.steps.draw();
    say(`${report.stepText(run)}, peak ${fmtBytes(report.runs.peak[run])}`);
  }

  /* 'ops' or 'time' of one run, or 'all' runs. */
  setAxis(unit) {
    const {report, program, run} = this;
    const allowed = !byId(`unit-${unit}`).disabled;
    this.unit = allowed ? unit : 'ops';
    byId('unit').value = this.unit;
    this.scope = this.unit === 'all' ? 'all' : 'run';
    if (this.scope === 'all') {
      this.axis = new AllRuns(report, program.words.exec);
      this.cursor.instance = Math.max(0, this.axis.runs.indexOf(run));
    } else {
      this.axis = new OneRun(program, run, this.unit === 'time' ? report.edges(run) : null);
      this.cursor.instance = 0;
    }
    const whole = this.axis.finish - this.axis.begin;
    this.zoom.domain(this.axis.begin, this.axis.finish, this.axis.inTime ? Math.max(whole / 1e9, 1) : 1);
    this.plan.reset();
    this.steps.draw();
    this.drawMoment();
  }

  /* ---- the cursor ------------------------------------------------------------------------ */

  /* Where the op at the cursor begins; 1: where it ends. */
  cursorX(end) {
    if (!this.axis.count || !this.program.nOps)
      return 0;
    return edgeOf(this.axis, this.cursor.instance, this.cursor.op + (end || 0));
  }

  peakX() {
    if (!this.axis.count || !this.program.nOps)
      return null;
    const {instance} = this.cursor, {peak} = this.program;
    return (edgeOf(this.axis, instance, peak) + edgeOf(this.axis, instance, peak + 1)) / 2;
  }

  middle() {
    const x = this.cursorX();
    return x >= this.zoom.from && x <= this.zoom.to ? x : (this.zoom.from + this.zoom.to) / 2;
  }

  moveCursor(instance, op, role) {
    const program = this.axis.program(instance);
    this.cursor = {instance, op};
    if (program !== this.program) {
      this.program = program;
      this.selected = -1;
      this.showProgram();
      this.plan.reset();
    }
    if (this.scope === 'all')
      this.run = this.axis.runAt(instance);
    this.role = role || null;
    this.redraw();
    this.drawMoment();
  }

  step(by) {
    const {instance, op} = this.cursor, last = this.program.nOps - 1;
    if (this.scope === 'all' && Number.isFinite(by) && op + by > last && instance + 1 < this.axis.count)
      this.moveCursor(instance + 1, 0);
    else if (this.scope === 'all' && Number.isFinite(by) && op + by < 0 && instance > 0)
      this.moveCursor(instance - 1, this.axis.program(instance - 1).nOps - 1);
    else
      this.moveCursor(instance, Math.min(last, Math.max(0, op + by)));
    this.zoom.show(this.cursorX());
  }

  toPeak() {
    if (!this.program)
      return;
    this.moveCursor(this.cursor.instance, this.program.peak);
    this.zoom.show(this.cursorX());
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
    const {program} = this;
    if (!program.lives(i, this.cursor.op))
      this.moveCursor(this.cursor.instance, program.birth[i]);
    this.zoom.show(this.cursorX());
    this.select(i);
    say(`${program.text('name', i)}, ${fmtBytes(program.bytes[i])}`);
  }

  nextLive(by) {
    const live = this.program.liveAt(this.cursor.op), at = live.indexOf(this.selected);
    if (live.length)
      this.select(live[at < 0 ? 0 : (at + by + live.length) % live.length]);
  }

  zoomToSelected() {
    if (this.selected < 0)
      return;
    const {instance} = this.cursor, i = this.selected;
    const from = edgeOf(this.axis, instance, this.program.birth[i]), to = edgeOf(this.axis, instance, this.program.end[i]);
    this.zoom.set(from - (to - from) * 0.15, to + (to - from) * 0.15);
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
    if (document.activeElement && document.activeElement.matches('canvas'))
      say(`${this.opTitle(program, cursor.op)}: ${fmtBytes(program.total[cursor.op])} live` +
        (selected >= 0 ? `; ${program.text('name', selected)}, ${fmtBytes(program.bytes[selected])}` : ''));
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
    this.overview.draw();
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
    readTheme();
    recolor();
    this.overview.axis = null;
    this.drawCharts();
    this.steps.draw();
    if (this.diff)
      this.diff.drawCurve();
  }

  changeTheme() {
    toggleTheme();
    this.drawAll();
  }

  /* ---- two runs -------------------------------------------------------------------------- */

  openDiff() {
    const [a, b] = this.reports.map((report) => report.main);
    byId('tabs').hidden = false;
    const views = ['a', 'b', 'diff'];
    for (const name of views)
      byId(`tab-${name}`).addEventListener('click', () => this.show(name));
    byId('tabs').addEventListener('keydown', (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by)
        return;
      const at = (views.indexOf(this.view) + by + views.length) % views.length;
      this.show(views[at]);
      byId(`tab-${views[at]}`).focus();
    });
    if (a && b)
      this.diff = new Diff(this, a, b);
    this.show('diff');
  }

  show(view) {
    this.view = view;
    for (const name of ['a', 'b', 'diff']) {
      byId(`tab-${name}`).setAttribute('aria-selected', String(name === view));
      byId(`tab-${name}`).tabIndex = name === view ? 0 : -1;
    }
    byId('diff-view').hidden = view !== 'diff';
    this.summary.head(view === 'diff' ? this.reports : [this.reports[view === 'a' ? 0 : 1]]);
    byId('run-view').hidden = view === 'diff';
    if (view === 'diff')
      this.diff && this.diff.draw();
    else
      this.openReport(view === 'a' ? 0 : 1);
  }
}

readTheme();
const app = new App();
document.title = `${app.report.words.model || app.report.words.path || 'run'} - stepwell report`;
listen(app);
window.addEventListener('resize', () => theme.printing || app.drawAll());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => theme.printing || app.drawAll());
for (const [event, printing] of [['beforeprint', true], ['afterprint', false]])
  window.addEventListener(event, () => {
    theme.printing = printing;
    app.drawAll();
    if (printing)
      ['timeline', 'plan'].forEach((id) => flatten(byId(id), byId(`${id}-over`)));
  });
