/* Live bytes over time, stacked by role, with the phases above. Each column of pixels shows what lives at the busiest
 * moment that it covers, so no peak is lost. */

const BAND = 18; /* of the phases */

class Timeline {
  constructor(app) {
    this.app = app;
    this.canvas = byId('timeline');
    this.hidden = new Set(); /* roles that are not drawn */
    this.canvas.addEventListener('click', (event) => {
      const at = this.at[columnAt(this.chart, event)];
      if (at)
        app.moveCursor(at.op, this.roleAt(at.op, event));
    });
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => app.tip(null));
  }

  pixelOf(x) {
    return this.chart.box.left + x / this.app.axis.finish * this.chart.box.width;
  }

  /* The pixels of an op. */
  span(op) {
    const {axis} = this.app;
    return [this.pixelOf(axis.edge(op)), this.pixelOf(axis.edge(op + 1))];
  }

  draw() {
    const {axis, program} = this.app, shown = program.roles.map((role, k) => [role, program.live[k]])
      .filter(([role]) => !this.hidden.has(role));
    let top = program.peakBytes;
    if (this.hidden.size) {
      top = 1;
      for (let i = 0; i < program.nOps; i++)
        top = Math.max(top, shown.reduce((sum, [, live]) => sum + live[i], 0));
    }
    this.chart = chartOf(this.canvas, 1.06 * Math.max(1, top), BAND + 4, 22);
    markX(this.chart, axis.finish, axis.edges ? fmtNs : (x) => Number.isInteger(x) ? fmtInt(x) : '');
    this.sample();
    this.drawStack(shown);
    this.drawPhases();
    if (!this.hidden.size && program.nOps)
      this.drawPeak();
    drawCursor(this.chart.to, this.span(this.app.cursor.op), this.chart.box.top + this.chart.box.height);
  }

  /* For each column of pixels the op that is shown and the phase, -1 where several alternate. */
  sample() {
    const {axis, program} = this.app, columns = program.nOps ? Math.ceil(this.chart.box.width) : 0, step = axis.finish / columns;
    this.at = Array.from({length: columns}, (_, i) => {
      const [first, last] = axis.opsIn(i * step, (i + 1) * step), op = largest(program.total, first, last);
      return {op, phase: program.changes[last - 1] - program.changes[first] > 1 ? -1 : program.ops.phase[op]};
    });
  }

  drawStack(shown) {
    const {to} = this.chart;
    let base = new Float64Array(this.at.length);
    for (const [role, live] of shown) {
      const up = base.map((bytes, i) => bytes + live[this.at[i].op]);
      to.beginPath();
      traceSteps(this.chart, up);
      traceSteps(this.chart, base, true);
      to.fillStyle = roleColor(role);
      to.fill();
      this.outline(up, SURFACE, 0.75);
      base = up;
    }
    this.outline(base, INK, 1);
    this.sums = base;
  }

  /* Without its upright parts, which would be all that is seen where it rises and falls in each column. */
  outline(heights, color, width) {
    const {to, box, yOf} = this.chart;
    to.beginPath();
    heights.forEach((bytes, i) => {
      to.moveTo(box.left + i, yOf(bytes));
      to.lineTo(box.left + i + 1, yOf(bytes));
    });
    to.strokeStyle = color;
    to.lineWidth = width;
    to.stroke();
  }

  drawPhases() {
    const {to, box} = this.chart;
    for (let from = 0, i = 1; i <= this.at.length; i++) {
      const {phase} = this.at[from];
      if (i < this.at.length && this.at[i].phase === phase)
        continue;
      const left = box.left + from, width = i - from, name = phase < 0 ? 'phases alternate' : PHASES[phase];
      to.fillStyle = INK;
      to.globalAlpha = phase < 0 ? 0.2 : phase % 2 ? 0.28 : 0.14;
      to.fillRect(left, 0, width, BAND);
      to.globalAlpha = 0.35;
      if (width > 3 && phase >= 0)
        to.fillRect(left, 0, 1, box.top + box.height);
      to.globalAlpha = 1;
      if (width > to.measureText(name).width + 8)
        to.fillText(name, left + width / 2, BAND / 2);
      from = i;
    }
  }

  drawPeak() {
    const {to, box, yOf} = this.chart, {peak, peakBytes} = this.app.program, label = `peak ${fmtBytes(peakBytes)}`;
    const [left, until] = this.span(peak), x = (left + until) / 2, y = yOf(peakBytes);
    to.fillStyle = ACCENT;
    to.strokeStyle = SURFACE;
    to.lineWidth = 3;
    to.beginPath();
    to.arc(x, y, 4.5, 0, 7);
    to.stroke();
    to.fill();
    to.font = '600 11px system-ui, sans-serif';
    const right = x + to.measureText(label).width + 12 < box.left + box.width;
    to.textAlign = right ? 'left' : 'right';
    to.strokeText(label, x + (right ? 9 : -9), y);
    to.fillText(label, x + (right ? 9 : -9), y);
  }

  roleAt(op, event) {
    const {program} = this.app;
    let sum = 0;
    for (let k = 0; k < program.roles.length; k++) {
      sum += this.hidden.has(program.roles[k]) ? 0 : program.live[k][op];
      if (sum > 0 && event.offsetY >= this.chart.yOf(sum))
        return program.roles[k];
    }
    return null;
  }

  hover(event) {
    const {app} = this, {program} = app, at = this.at[columnAt(this.chart, event)];
    if (!at) {
      app.tip(null);
      return;
    }
    const role = this.roleAt(at.op, event);
    const rows = program.roles.map((name, k) => [name, program.live[k][at.op]]).filter(([, bytes]) => bytes > 0).reverse();
    app.tip(event, h('strong', {}, `${fmtBytes(program.total[at.op])} live`), h('div', {}, app.opTitle(program, at.op)),
      h('table', {}, h('tbody', {}, ...rows.map(([name, bytes]) => h('tr', {class: name === role ? 'here' : ''},
        h('td', {}, swatch(name), name), h('td', {class: 'number'}, fmtInt(bytes)))))));
  }
}

/* Over the ops between two pixels. */
function drawCursor(to, [from, until], height) {
  to.fillStyle = ACCENT;
  to.globalAlpha = 0.18;
  to.fillRect(from, 0, Math.max(1, until - from), height);
  to.globalAlpha = 1;
  to.fillRect(Math.round((from + until) / 2) - 0.5, 0, 1.5, height);
}
