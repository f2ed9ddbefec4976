/* Live bytes over time, stacked by role, with the phases above. Each column of pixels shows what
 * lives at the busiest moment that it covers, so no peak is lost at any zoom. */

const GUTTER = 76; /* for figures left of the charts */
const MARGIN = 20; /* right of them */
const BAND = 18;   /* of the phases */

class Timeline {
  constructor(app) {
    this.app = app;
    this.canvas = byId('timeline');
    this.over = byId('timeline-over');
    this.hidden = new Set(); /* roles that are not drawn */
    steer(this.over, {x: app.zoom}, () => this.box, (event) => this.click(event));
    this.over.addEventListener('pointermove', (event) => this.hover(event));
    this.over.addEventListener('pointerleave', () => app.tip(null));
  }

  xOf(pixel) {
    const zoom = this.app.zoom;
    return zoom.from + (pixel - this.box.left) / this.box.width * zoom.length;
  }

  pixelOf(x) {
    const zoom = this.app.zoom;
    return this.box.left + (x - zoom.from) / zoom.length * this.box.width;
  }

  draw() {
    const {to, width, height} = fitCanvas(this.canvas);
    this.box = {left: GUTTER, top: BAND + 4, width: Math.max(1, width - GUTTER - MARGIN), height: height - BAND - 26};
    this.top = this.highest();
    this.drawGrid(to);
    this.sample();
    to.save();
    to.beginPath();
    to.rect(this.box.left, 0, this.box.width, height);
    to.clip();
    this.drawStack(to);
    this.drawPhases(to);
    to.restore();
    this.drawOver();
  }

  /* The scale: the highest peak there is, whatever is in view, so that panning moves nothing up or
   * down. */
  highest() {
    const axis = this.app.axis;
    let top = 1;
    for (const program of axis.programs || axis.report.programs)
      top = Math.max(top, this.shown(program, program.peak, 0), program.peakBytes * (this.hidden.size ? 0 : 1));
    if (this.hidden.size)
      top = Math.max(top, this.highestShown());
    return top * 1.06;
  }

  highestShown() {
    let top = 0;
    for (const program of this.app.axis.programs || this.app.axis.report.programs)
      for (let i = 0; i < program.nOps; i++)
        top = Math.max(top, this.shown(program, i, 0));
    return top;
  }

  /* Bytes of the roles that are drawn. */
  shown(program, op, sum) {
    for (let k = 0; k < program.roles.length; k++)
      if (!this.hidden.has(program.roles[k]))
        sum += program.live[k][op] || 0;
    return sum;
  }

  yOf(bytes) {
    return this.box.top + this.box.height * (1 - bytes / this.top);
  }

  drawGrid(to) {
    const {left, top, width, height} = this.box, app = this.app;
    to.font = '11px system-ui, sans-serif';
    to.lineWidth = 1;
    to.textAlign = 'right';
    to.textBaseline = 'middle';
    const marks = axisBytes(this.top);
    for (const bytes of ticks(0, this.top, height / 45, true)) {
      const y = Math.round(this.yOf(bytes)) + 0.5;
      to.strokeStyle = theme.line;
      to.beginPath();
      to.moveTo(left, y);
      to.lineTo(left + width, y);
      to.stroke();
      to.fillStyle = theme.faint;
      to.fillText(marks(bytes), left - 6, y);
    }
    to.textAlign = 'center';
    to.textBaseline = 'top';
    for (const x of ticks(app.zoom.from, app.zoom.to, width / 110, false)) {
      const at = this.pixelOf(x);
      to.fillText(app.axis.inTime ? fmtNs(x) : Number.isInteger(x) ? fmtInt(x) : '', at, top + height + 6);
    }
  }

  /* For each column of pixels the program and the op that are shown. */
  sample() {
    const columns = Math.ceil(this.box.width), {axis, zoom} = this.app, step = zoom.length / this.box.width;
    this.at = new Array(columns);
    for (let i = 0; i < columns; i++) {
      const best = busiestIn(axis, zoom.from + i * step, zoom.from + (i + 1) * step);
      this.at[i] = best ? {program: axis.program(best[0]), instance: best[0], op: best[1]} : null;
    }
  }

  /* Live bytes of each role in each column: of the next lower program's model between runs. */
  drawStack(to) {
    const columns = this.at.length, base = new Float64Array(columns);
    for (const role of this.app.roles()) {
      if (this.hidden.has(role))
        continue;
      const up = new Float64Array(columns);
      let any = false;
      for (let i = 0; i < columns; i++) {
        const at = this.at[i], program = at ? at.program : this.app.program;
        const k = program.roles.indexOf(role);
        const bytes = k < 0 ? 0 : at ? program.live[k][at.op] : program.rest[k];
        up[i] = base[i] + bytes;
        any = any || bytes > 0;
      }
      if (any)
        this.fillBand(to, base, up, roleColor(role));
      base.set(up);
    }
    this.outline(to, base, theme.ink, 1);
    this.sums = base;
  }

  fillBand(to, base, up, color) {
    to.beginPath();
    this.trace(to, up, 0, up.length, 1);
    this.trace(to, base, base.length - 1, -1, -1);
    to.closePath();
    to.fillStyle = color;
    to.fill();
    this.outline(to, up, theme.surface, 0.75);
  }

  /* Steps, not slopes: what lives changes at once. */
  trace(to, heights, from, until, by) {
    const left = this.box.left;
    for (let i = from; i !== until; i += by) {
      const y = this.yOf(heights[i]);
      to.lineTo(left + i + (by < 0 ? 1 : 0), y);
      to.lineTo(left + i + (by < 0 ? 0 : 1), y);
    }
  }

  /* Without its upright parts, which would be all that is seen where it rises and falls in each
   * column. */
  outline(to, heights, color, width) {
    to.beginPath();
    let from = 0;
    for (let i = 1; i <= heights.length; i++) {
      if (i < heights.length && heights[i] === heights[from])
        continue;
      to.moveTo(this.box.left + from, this.yOf(heights[from]));
      to.lineTo(this.box.left + i, this.yOf(heights[from]));
      from = i;
    }
    to.strokeStyle = color;
    to.lineWidth = width;
    to.stroke();
  }

  /* The phase above a column: one of a run, -1 for none, -2 for several. */
  phaseOf(i) {
    const at = this.at[i];
    if (!at)
      return -1;
    const {axis, zoom} = this.app, step = zoom.length / this.box.width, {program, instance} = at;
    const x0 = zoom.from + i * step, x1 = x0 + step, start = axis.start(instance), stop = axis.stop(instance);
    if (x0 < start && x1 > stop)
      return -2;
    const first = Math.max(0, opAt(axis, instance, Math.max(x0, start)));
    const last = x1 >= stop ? program.nOps - 1 : opAt(axis, instance, x1);
    if (program.changes[last] - program.changes[first] > 1)
      return -2;
    return program.ops.phase[at.op] + 8 * instance;
  }

  drawPhases(to) {
    to.font = '11px system-ui, sans-serif';
    to.textBaseline = 'middle';
    to.textAlign = 'center';
    let from = 0, key = this.phaseOf(0);
    for (let i = 1; i <= this.at.length; i++) {
      const next = i < this.at.length ? this.phaseOf(i) : null;
      if (next === key)
        continue;
      if (key !== -1)
        this.drawPhase(to, key === -2 ? 'phases alternate' : PHASES[key % 8], key, from, i);
      from = i;
      key = next;
    }
  }

  drawPhase(to, name, key, from, until) {
    const left = this.box.left + from, width = until - from;
    to.globalAlpha = key === -2 ? 0.2 : key % 2 ? 0.28 : 0.14;
    to.fillStyle = theme.ink;
    to.fillRect(left, 0, width, BAND);
    to.globalAlpha = 0.35;
    if (width > 3 && key !== -2)
      to.fillRect(left, 0, 1, this.box.top + this.box.height);
    to.globalAlpha = 1;
    if (width > to.measureText(name).width + 8) {
      to.fillStyle = theme.ink;
      to.fillText(name, left + width / 2, BAND / 2);
    }
  }

  /* The cursor and the peak, on a canvas of their own. */
  drawOver() {
    const {to, width, height} = fitCanvas(this.over), app = this.app;
    to.save();
    to.beginPath();
    to.rect(this.box.left - 6, 0, width - this.box.left, height);
    to.clip();
    const peak = app.peakX();
    if (peak !== null && !this.hidden.size)
      this.drawPeak(to, this.pixelOf(peak), app.program.peakBytes);
    this.drawCursor(to);
    to.restore();
  }

  drawPeak(to, x, bytes) {
    const y = this.yOf(bytes), label = `peak ${fmtBytes(bytes)}`;
    to.fillStyle = theme.accent;
    to.beginPath();
    to.arc(x, y, 4.5, 0, 7);
    to.fill();
    to.strokeStyle = theme.surface;
    to.lineWidth = 1.5;
    to.stroke();
    to.font = '600 11px system-ui, sans-serif';
    to.textBaseline = 'middle';
    const room = to.measureText(label).width + 12;
    const right = x + room < this.box.left + this.box.width;
    to.textAlign = right ? 'left' : 'right';
    to.lineWidth = 3;
    to.strokeText(label, x + (right ? 9 : -9), y);
    to.fillText(label, x + (right ? 9 : -9), y);
  }

  drawCursor(to) {
    const app = this.app, from = this.pixelOf(app.cursorX()), until = this.pixelOf(app.cursorX(1));
    to.fillStyle = theme.accent;
    to.globalAlpha = 0.18;
    to.fillRect(from, 0, Math.max(1, until - from), this.box.top + this.box.height);
    to.globalAlpha = 1;
    to.fillRect(Math.round((from + until) / 2) - 0.5, 0, 1.5, this.box.top + this.box.height);
  }

  columnAt(event) {
    const i = Math.floor(event.offsetX - this.box.left);
    return i >= 0 && i < this.at.length ? this.at[i] : null;
  }

  roleAt(at, event) {
    let sum = 0;
    for (const role of this.app.roles()) {
      const k = at.program.roles.indexOf(role);
      if (k < 0 || this.hidden.has(role))
        continue;
      sum += at.program.live[k][at.op];
      if (event.offsetY >= this.yOf(sum))
        return role;
    }
    return null;
  }

  hover(event) {
    const at = this.columnAt(event), app = this.app;
    if (!at || event.buttons) {
      app.tip(null);
      return;
    }
    const role = this.roleAt(at, event), program = at.program;
    const rows = app.roles().filter((name) => program.roles.includes(name)).reverse().map((name) => {
      const bytes = program.live[program.roles.indexOf(name)][at.op];
      return bytes > 0 ? h('tr', {class: name === role ? 'here' : ''}, h('td', {}, swatch(name), name),
        h('td', {class: 'number'}, fmtInt(bytes))) : null;
    });
    app.tip(event, h('strong', {}, `${fmtBytes(program.total[at.op])} live`), h('div', {}, app.opTitle(program, at.op)),
      h('table', {}, h('tbody', {}, ...rows)));
  }

  click(event) {
    const at = this.columnAt(event);
    if (at)
      this.app.moveCursor(at.instance, at.op, this.roleAt(at, event));
  }
}

/* The whole of it, small, with a frame around what is in view. */
class Overview {
  constructor(app) {
    this.app = app;
    this.canvas = byId('overview');
    const go = (event) => {
      if (event.buttons !== 1)
        return;
      const zoom = app.zoom, x = zoom.min + (event.offsetX - GUTTER) / this.width * (zoom.max - zoom.min);
      zoom.set(x - zoom.length / 2, x + zoom.length / 2);
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener('pointermove', go);
  }

  draw() {
    const {to, width, height} = fitCanvas(this.canvas), {axis, zoom} = this.app;
    this.width = Math.max(1, width - GUTTER - MARGIN);
    const columns = Math.ceil(this.width), step = (zoom.max - zoom.min) / this.width;
    if (this.axis !== axis || this.sums.length !== columns) {
      this.axis = axis;
      this.sums = new Float64Array(columns);
      for (let i = 0; i < columns; i++) {
        const best = busiestIn(axis, zoom.min + i * step, zoom.min + (i + 1) * step);
        this.sums[i] = best ? axis.program(best[0]).total[best[1]] : 0;
      }
    }
    let top = 1;
    for (const sum of this.sums)
      top = Math.max(top, sum);
    to.fillStyle = theme.faint;
    for (let i = 0; i < columns; i++)
      to.fillRect(GUTTER + i, height * (1 - this.sums[i] / top), 1, height);
    const from = GUTTER + (zoom.from - zoom.min) / step, until = GUTTER + (zoom.to - zoom.min) / step;
    to.fillStyle = theme.surface;
    to.globalAlpha = 0.7;
    to.fillRect(GUTTER, 0, from - GUTTER, height);
    to.fillRect(until, 0, GUTTER + this.width - until, height);
    to.globalAlpha = 1;
    to.strokeStyle = theme.accent;
    to.lineWidth = 1.5;
    to.strokeRect(from + 0.75, 0.75, Math.max(2, until - from - 1.5), height - 1.5);
  }
}
