/* Where each tensor lies from when to when: rectangles, time by address. They are painted into a
 * buffer that has, for each pixel, the number of the value there; so a frame costs the values in
 * view plus the pixels, and the pointer finds its tensor by one look. */

const EDGE = 0x80000000; /* in the buffer: the border of a rectangle */
const MOST_RUNS = 40;    /* more in view are not painted one by one */

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
    this.over = byId('plan-over');
    this.zoomY = new Zoom(() => app.redraw());
    this.all = false;
    this.layouts = new Map();
    steer(this.over, {x: app.zoom, y: this.zoomY}, () => this.box, (event) => this.click(event));
    this.over.addEventListener('pointermove', (event) => this.hover(event));
    this.over.addEventListener('pointerleave', () => {
      this.under = -1;
      app.tip(null);
      this.drawOver();
    });
  }

  layout(program) {
    const key = 2 * program.index + (this.all ? 1 : 0) + 0.5 * program.report.which;
    if (!this.layouts.has(key))
      this.layouts.set(key, layOut(program, this.all));
    return this.layouts.get(key);
  }

  /* After another program or another choice of segments. */
  reset() {
    this.zoomY.domain(0, this.layout(this.app.program).top, 64);
  }

  yOf(address) {
    return this.box.top + this.box.height * (1 - (address - this.zoomY.from) / this.zoomY.length);
  }

  draw() {
    const {to, width, height, scale} = fitCanvas(this.canvas), app = this.app;
    this.box = {left: GUTTER, top: 2, width: Math.max(1, width - GUTTER - MARGIN), height: height - 4};
    this.scale = scale;
    const w = Math.max(1, Math.floor(this.box.width * scale)), tall = Math.max(1, Math.floor(this.box.height * scale));
    if (!this.ids || this.w !== w || this.tall !== tall) {
      Object.assign(this, {w, tall, ids: new Uint32Array(w * tall), image: new ImageData(w, tall)});
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.ids.fill(0);
    this.labels = [];
    this.instances = [];
    const first = app.axis.find(app.zoom.from), last = app.axis.find(app.zoom.to);
    this.many = last - first >= MOST_RUNS;
    if (app.axis.count && !this.many)
      for (let i = first; i <= last; i++)
        this.paint(i);
    this.colour();
    to.putImageData(this.image, Math.round(this.box.left * scale), Math.round(this.box.top * scale));
    this.drawScale(to);
    this.drawLabels(to);
    this.drawOver();
  }

  /* The values of one run into the buffer. */
  paint(instance) {
    const {axis, zoom} = this.app, program = axis.program(instance), {lower} = this.layout(program);
    const edges = axis.edgesOf(instance), start = axis.start(instance);
    const perX = this.w / zoom.length, perY = this.tall / this.zoomY.length;
    const base = (start - zoom.from) * perX, high = this.zoomY.to;
    const {birth, end, size} = program;
    if (program !== this.app.program)
      return; /* the buffer's numbers are of one program */
    this.instances.push(instance);
    const first = Math.max(0, opAt(axis, instance, Math.max(start, zoom.from)));
    const last = zoom.to >= axis.stop(instance) ? program.nOps : opAt(axis, instance, zoom.to) + 1;
    program.eachIn(first, last, (i) => {
      const at = lower[i];
      if (at < 0 || birth[i] >= last || end[i] <= first)
        return;
      const left = base + (edges ? edges[birth[i]] : birth[i]) * perX;
      const right = base + (edges ? edges[end[i]] : end[i]) * perX;
      const top = (high - at - size[i]) * perY, bottom = (high - at) * perY;
      if (right > 0 && left < this.w && bottom > 0 && top < this.tall)
        this.rectangle(i + 1, left, right, top, bottom);
    });
  }

  rectangle(number, left, right, top, bottom) {
    const {w, tall, ids} = this;
    const x0 = Math.max(0, Math.floor(left)), x1 = Math.min(w, Math.max(Math.floor(right), x0 + 1));
    const y0 = Math.max(0, Math.floor(top)), y1 = Math.min(tall, Math.max(Math.floor(bottom), y0 + 1));
    if (x1 - x0 === 1) {
      for (let y = y0, at = y0 * w + x0; y < y1; y++, at += w)
        ids[at] = number;
      return;
    }
    for (let y = y0, at = y0 * w; y < y1; y++, at += w)
      ids.fill(number, at + x0, at + x1);
    if (right - left < 4 || bottom - top < 4)
      return;
    const border = (number | EDGE) >>> 0;
    if (top >= 0)
      ids.fill(border, y0 * w + x0, y0 * w + x1);
    if (left >= 0)
      for (let y = y0, at = y0 * w + x0; y < y1; y++, at += w)
        ids[at] = border;
    const wide = (x1 - x0) / this.scale, high = (y1 - y0) / this.scale;
    if (wide > 50 && high > 13 && this.labels.length < 400)
      this.labels.push([number - 1, x0 / this.scale, y0 / this.scale, wide, high]);
  }

  colour() {
    const program = this.app.program, {ids, pixels} = this;
    const hidden = program.roles.map((role) => this.app.timeline.hidden.has(role));
    const plain = Uint32Array.from(program.roles, (role, k) => hidden[k] ? 0 : pixelOf(roleColor(role), 1));
    const dark = Uint32Array.from(program.roles, (role, k) => hidden[k] ? 0 : pixelOf(roleColor(role), 0.62));
    const {roleOf} = program;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i];
      if (id === 0)
        pixels[i] = 0;
      else if (id >= EDGE)
        pixels[i] = dark[roleOf[id - EDGE - 1]];
      else
        pixels[i] = plain[roleOf[id - 1]];
    }
  }

  drawScale(to) {
    const {left, width} = this.box;
    to.font = '11px system-ui, sans-serif';
    to.textBaseline = 'middle';
    to.textAlign = 'right';
    to.fillStyle = theme.faint;
    const lanes = this.layout(this.app.program).lanes;
    for (const lane of lanes) {
      const bottom = this.yOf(lane.from), from = Math.max(lane.from, this.zoomY.from);
      const room = Math.min(lane.until, this.zoomY.to) - from, marks = axisBytes(lane.until - lane.from);
      for (const address of ticks(from - lane.from, from - lane.from + room, 8 * room / this.zoomY.length, true))
        to.fillText(marks(address), left - 6, Math.min(this.yOf(lane.from + address), this.box.top + this.box.height - 6));
      to.fillRect(left, Math.round(bottom) - 1, width, 1);
    }
    if (this.many) {
      to.textAlign = 'center';
      to.fillText(`zoom in: with at most ${MOST_RUNS} runs in view the plan of each is drawn`, left + width / 2,
        this.box.height / 2);
    }
  }

  drawLabels(to) {
    const program = this.app.program;
    to.font = '11px system-ui, sans-serif';
    to.textBaseline = 'middle';
    to.textAlign = 'left';
    this.written = [];
    for (const [i, x, y, wide, high] of this.labels) {
      const role = program.roles[program.roleOf[i]], name = program.text('name', i), taken = to.measureText(name).width;
      if (this.app.timeline.hidden.has(role) || taken > wide - 8)
        continue; /* a part of a name is another name: the tip has it */
      to.fillStyle = isDark(roleColor(role)) ? '#fff' : '#000';
      to.fillText(name, this.box.left + x + 5, this.box.top + y + high / 2);
      this.written.push({name, taken, wide});
    }
  }

  drawOver() {
    if (!this.box)
      return;
    const {to, width, height} = fitCanvas(this.over), app = this.app;
    to.save();
    to.beginPath();
    to.rect(this.box.left, 0, width - this.box.left, height);
    to.clip();
    const from = app.timeline.pixelOf(app.cursorX()), until = app.timeline.pixelOf(app.cursorX(1));
    to.fillStyle = theme.accent;
    to.globalAlpha = 0.18;
    to.fillRect(from, 0, Math.max(1, until - from), height);
    to.globalAlpha = 1;
    to.fillRect(Math.round((from + until) / 2) - 0.5, 0, 1.5, height);
    if (this.under >= 0)
      this.frame(to, this.under, 1.5);
    if (app.selected >= 0)
      this.frame(to, app.selected, 3);
    to.restore();
  }

  /* Around a value, in each run in view. */
  frame(to, i, thick) {
    const {axis, program, timeline} = this.app, at = this.layout(program).lower[i];
    if (at < 0)
      return;
    for (const instance of this.instances) {
      const left = timeline.pixelOf(edgeOf(axis, instance, program.birth[i]));
      const right = timeline.pixelOf(edgeOf(axis, instance, program.end[i]));
      const top = this.yOf(at + program.size[i]), bottom = this.yOf(at);
      for (const [color, width] of [[theme.surface, thick + 2], [theme.ink, thick]]) {
        to.strokeStyle = color;
        to.lineWidth = width;
        to.strokeRect(left, top, Math.max(2, right - left), Math.max(2, bottom - top));
      }
    }
  }

  /* The value under the pointer, or -1; a thin one may lie a pixel away. */
  valueAt(event) {
    const x = Math.floor((event.offsetX - this.box.left) * this.scale);
    const y = Math.floor((event.offsetY - this.box.top) * this.scale);
    for (const [dx, dy] of [[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])
      if (x + dx >= 0 && x + dx < this.w && y + dy >= 0 && y + dy < this.tall) {
        const id = this.ids[(y + dy) * this.w + x + dx];
        if (id)
          return (id & ~EDGE) - 1;
      }
    return -1;
  }

  hover(event) {
    const app = this.app, found = event.buttons ? -1 : this.valueAt(event);
    if (found !== this.under) {
      this.under = found;
      this.drawOver();
    }
    if (found < 0)
      app.tip(null);
    else
      app.tip(event, ...valueLines(app.program, found));
  }

  click(event) {
    const found = this.valueAt(event), {axis} = this.app, x = this.app.timeline.xOf(event.offsetX);
    const instance = axis.count ? axis.find(x) : -1;
    this.app.select(found);
    if (instance >= 0 && opAt(axis, instance, x) >= 0)
      this.app.moveCursor(instance, opAt(axis, instance, x));
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
