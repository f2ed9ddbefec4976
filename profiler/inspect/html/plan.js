/* Where each tensor lies from when to when: rectangles, time by address. They are painted into a buffer that has, for
 * each pixel, the number of the value there; so the pointer finds its tensor by one look. */

const EDGE = 0x80000000; /* in the buffer: the border of a rectangle */

/* Addresses that nothing ever uses are left out where they would fill the picture: what a sparse
 * address becomes. `spans` are [from, until) of what is used. */
function squeeze(spans, least) {
  const order = spans.map((_, i) => i).sort((a, b) => spans[a][0] - spans[b][0]);
  const from = [], shift = [];
  let until = 0, gone = 0;
  for (const i of order) {
    if (spans[i][0] - until > least) {
      gone += spans[i][0] - until - least;
      from.push(spans[i][0]);
      shift.push(gone);
    }
    until = Math.max(until, spans[i][1]);
  }
  return (address) => {
    let lo = 0, hi = from.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (from[mid] <= address)
        lo = mid + 1;
      else
        hi = mid;
    }
    return address - (lo ? shift[lo - 1] : 0);
  };
}

/* For the values of a program: `lower`, where each begins on the y axis, and `lanes`. Those of
 * segments that are not shown have -1. */
function layOut(program, all) {
  const lower = new Float64Array(program.n).fill(-1), lanes = [];
  let base = 0;
  const used = SEGMENTS.map(() => []);
  for (let i = 0; i < program.n; i++)
    if (program.size[i] > 0)
      used[program.segment[i]].push(i);
  const arena = used[STEP].length || used[MEMORY].length;
  for (let segment = 0; segment < SEGMENTS.length; segment++) {
    if (used[segment].length === 0 || (arena && !all && segment !== STEP && segment !== MEMORY))
      continue;
    let place = (address) => address;
    if (segment === MEMORY)
      place = squeeze(used[segment].map((i) => [program.offset[i], program.offset[i] + program.size[i]]),
        program.peakBytes / 100);
    let top = 0;
    for (const i of used[segment]) {
      const at = place(program.offset[i]);
      lower[i] = base + at;
      top = Math.max(top, at + program.size[i]);
    }
    lanes.push({name: SEGMENTS[segment], from: base, until: base + top});
    base += top * 1.02;
  }
  return {lower, lanes, top: base || 1};
}

class Plan {
  constructor(app) {
    this.app = app;
    this.canvas = byId('plan');
    this.all = false;
    this.under = -1;
    this.canvas.addEventListener('click', (event) => this.click(event));
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => this.point(null, -1));
  }

  draw() {
    const {to, box, scale} = this.chart = chartOf(this.canvas, 0, 2, 2);
    const w = Math.max(1, Math.floor(box.width * scale)), tall = Math.max(1, Math.floor(box.height * scale)), {axis} = this.app;
    if (this.axis !== axis || this.shown !== this.all || this.w !== w || this.tall !== tall) {
      Object.assign(this, {axis, w, tall, shown: this.all, image: new ImageData(w, tall)});
      this.paint();
    }
    this.colour();
    to.putImageData(this.image, Math.round(box.left * scale), Math.round(box.top * scale));
    this.drawScale();
    this.drawLabels();
    drawCursor(to, this.app.timeline.span(this.app.cursor.op), box.top + box.height);
    for (const [i, thick] of [[this.under, 1.5], [this.app.selected, 3]])
      if (i >= 0)
        this.frame(i, thick);
  }

  yOf(address) {
    return this.chart.box.top + this.chart.box.height * (1 - address / this.layout.top);
  }

  /* The values into the buffer. */
  paint() {
    const {axis} = this, {program} = axis, {birth, end, size} = program;
    this.layout = layOut(program, this.all);
    this.ids = new Uint32Array(this.w * this.tall);
    this.labels = [];
    const perX = this.w / axis.finish, perY = this.tall / this.layout.top, {lower, top} = this.layout;
    for (let i = 0; i < program.n; i++)
      if (lower[i] >= 0 && birth[i] < program.nOps)
        this.rectangle(i + 1, axis.edge(birth[i]) * perX, axis.edge(end[i]) * perX, (top - lower[i] - size[i]) * perY,
          (top - lower[i]) * perY);
  }

  rectangle(number, left, right, top, bottom) {
    const {w, tall, ids} = this, {scale} = this.chart;
    const x0 = Math.floor(left), x1 = Math.min(w, Math.max(Math.floor(right), x0 + 1));
    const y0 = Math.floor(top), y1 = Math.min(tall, Math.max(Math.floor(bottom), y0 + 1));
    for (let y = y0, at = y0 * w; y < y1; y++, at += w)
      ids.fill(number, at + x0, at + x1);
    if (x1 - x0 < 4 || y1 - y0 < 4)
      return;
    const border = (number | EDGE) >>> 0;
    ids.fill(border, y0 * w + x0, y0 * w + x1);
    for (let y = y0, at = y0 * w; y < y1; y++, at += w)
      ids[at + x0] = border;
    const wide = (x1 - x0) / scale, high = (y1 - y0) / scale;
    if (wide > 50 && high > 13 && this.labels.length < 400)
      this.labels.push([number - 1, x0 / scale, y0 / scale, wide, high]);
  }

  colour() {
    const {program} = this.axis, {ids} = this, {roleOf} = program, pixels = new Uint32Array(this.image.data.buffer);
    const dimmed = (dim) => Uint32Array.from(program.roles, (role) => {
      const part = (at) => Math.round(parseInt(roleColor(role).slice(at, at + 2), 16) * dim);
      return this.app.timeline.hidden.has(role) ? 0 : (255 << 24 | part(5) << 16 | part(3) << 8 | part(1)) >>> 0;
    }), plain = dimmed(1), dark = dimmed(0.62);
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i];
      pixels[i] = id === 0 ? 0 : id >= EDGE ? dark[roleOf[id - EDGE - 1]] : plain[roleOf[id - 1]];
    }
  }

  drawScale() {
    const {to, box} = this.chart;
    to.textAlign = 'right';
    to.fillStyle = FAINT;
    for (const lane of this.layout.lanes) {
      const room = lane.until - lane.from, marks = axisBytes(room);
      for (const address of ticks(0, room, 8 * room / this.layout.top, true))
        to.fillText(marks(address), box.left - 6, Math.min(this.yOf(lane.from + address), box.top + box.height - 6));
      to.fillRect(box.left, Math.round(this.yOf(lane.from)) - 1, box.width, 1);
    }
  }

  drawLabels() {
    const {to, box} = this.chart, {program} = this.axis;
    to.textAlign = 'left';
    this.written = [];
    for (const [i, x, y, wide, high] of this.labels) {
      const role = program.roles[program.roleOf[i]], name = program.text('name', i), taken = to.measureText(name).width;
      if (this.app.timeline.hidden.has(role) || taken > wide - 8)
        continue; /* a part of a name is another name: the tip has it */
      to.fillStyle = isDark(roleColor(role)) ? '#fff' : '#000';
      to.fillText(name, box.left + x + 5, box.top + y + high / 2);
      this.written.push({name, taken, wide});
    }
  }

  /* Around a value. */
  frame(i, thick) {
    const {to} = this.chart, {axis} = this, {program} = axis, at = this.layout.lower[i];
    if (at < 0)
      return;
    const [left, right] = [program.birth[i], program.end[i]].map((position) => this.app.timeline.pixelOf(axis.edge(position)));
    const top = this.yOf(at + program.size[i]), bottom = this.yOf(at);
    for (const [color, width] of [[SURFACE, thick + 2], [INK, thick]]) {
      to.strokeStyle = color;
      to.lineWidth = width;
      to.strokeRect(left, top, Math.max(2, right - left), Math.max(2, bottom - top));
    }
  }

  /* The value under the pointer, or -1; a thin one may lie a pixel away. */
  valueAt(event) {
    const {box, scale} = this.chart;
    const x = Math.floor((event.offsetX - box.left) * scale), y = Math.floor((event.offsetY - box.top) * scale);
    for (const [dx, dy] of [[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])
      if (x + dx >= 0 && x + dx < this.w && y + dy >= 0 && y + dy < this.tall) {
        const id = this.ids[(y + dy) * this.w + x + dx];
        if (id)
          return (id & ~EDGE) - 1;
      }
    return -1;
  }

  /* The value that the pointer rests on; -1: none. */
  point(event, i) {
    if (i !== this.under) {
      this.under = i;
      this.app.redraw();
    }
    this.app.tip(i < 0 ? null : event, ...(i < 0 ? [] : valueLines(this.axis.program, i)));
  }

  hover(event) {
    this.point(event, this.valueAt(event));
  }

  click(event) {
    const x = (event.offsetX - this.chart.box.left) / this.chart.box.width * this.axis.finish;
    this.app.select(this.valueAt(event));
    if (x >= 0 && x < this.axis.finish)
      this.app.moveCursor(this.axis.opAt(x));
  }
}

function isDark(color) {
  const part = (at) => parseInt(color.slice(at, at + 2), 16);
  return 0.3 * part(1) + 0.59 * part(3) + 0.11 * part(5) < 128;
}

/* The lines of a value, for its tip and the detail. */
function valueLines(program, i) {
  const role = program.roles[program.roleOf[i]];
  const last = program.end[i] - 1, padding = program.padding[i];
  return [
    h('strong', {}, program.nameOf(i)),
    h('div', {}, swatch(role), `${role}, ${fmtBytes(program.bytes[i])}` + (padding ? ` and ${fmtInt(padding)} B padding` : '')),
    h('div', {}, program.text('layer', i) ? `layer ${program.text('layer', i)}` : 'in no layer'),
    h('div', {}, program.text('op', i) ? `made by ${program.text('op', i)}` : 'there before the run'),
    h('div', {}, `${program.report.word}s ${fmtInt(program.birth[i] + 1)} to ${fmtInt(last + 1)} of ${fmtInt(program.nOps)}`),
  ];
}
