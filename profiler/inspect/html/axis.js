/* The x axis that timeline and plan share: runs in a row, each from its begin to its end, in
 * units of ops or of nanoseconds; and what part of it is looked at. */

/* One run, or one program without its times. */
class OneRun {
  constructor(program, run, edges) {
    Object.assign(this, {programs: [program], edges: edges || null, run, count: 1});
    this.begin = 0;
    this.finish = edges ? edges[program.nOps] : program.nOps;
    this.inTime = Boolean(edges) && program.report.runs.clock[run] !== UNTIMED;
  }

  program() {
    return this.programs[0];
  }

  runAt() {
    return this.run;
  }

  start() {
    return this.begin;
  }

  stop() {
    return this.finish;
  }

  /* Edges of ops since its start; null: op i lies at i. */
  edgesOf() {
    return this.edges;
  }

  /* The last run that begins at x or before it. */
  find() {
    return 0;
  }

  busiest() {
    return 0;
  }
}

/* All runs of one exec in the order they ran. Runs without clocks follow each other, op by op. */
class AllRuns {
  constructor(report, exec) {
    const runs = report.runs;
    this.report = report;
    this.runs = [];
    for (let i = 0; i < report.nRuns; i++)
      if (report.programs[runs.program[i]].words.exec === exec)
        this.runs.push(i);
    this.count = this.runs.length;
    this.starts = new Float64Array(this.count);
    this.stops = new Float64Array(this.count);
    const peaks = new Float64Array(this.count);
    let at = 0;
    this.inTime = true;
    for (let i = 0; i < this.count; i++) {
      const run = this.runs[i], program = this.program(i), timed = runs.clock[run] !== UNTIMED;
      at = Math.max(at, timed ? runs.at_ns[run] : 0);
      this.starts[i] = at;
      at += timed ? Math.max(1, runs.ns[run]) : program.nOps;
      this.stops[i] = at;
      peaks[i] = program.peakBytes;
      this.inTime = this.inTime && timed;
    }
    this.begin = this.count ? this.starts[0] : 0;
    this.finish = at;
    this.pyramid = new Pyramid(peaks);
    this.kept = new Map(); /* edges of runs that were looked at */
  }

  program(i) {
    return this.report.programs[this.report.runs.program[this.runs[i]]];
  }

  runAt(i) {
    return this.runs[i];
  }

  start(i) {
    return this.starts[i];
  }

  stop(i) {
    return this.stops[i];
  }

  edgesOf(i) {
    let edges = this.kept.get(i);
    if (edges)
      return edges;
    edges = this.report.edges(this.runs[i]);
    const n = edges.length - 1, length = this.stops[i] - this.starts[i];
    const stretch = edges[n] > 0 ? length / edges[n] : 0; /* what lies between ops is shared */
    for (let k = 0; k <= n; k++)
      edges[k] *= stretch;
    if (this.kept.size > 256)
      this.kept.clear();
    this.kept.set(i, edges);
    return edges;
  }

  find(x) {
    let lo = 0, hi = this.count;
    while (hi - lo > 1) {
      const mid = (lo + hi) >> 1;
      if (this.starts[mid] <= x)
        lo = mid;
      else
        hi = mid;
    }
    return lo;
  }

  /* Of runs [lo, hi) the one with the highest peak. */
  busiest(lo, hi) {
    return this.pyramid.largest(lo, hi);
  }
}

/* The op that runs at `x` of instance i, or -1 where none does. */
function opAt(axis, i, x) {
  const program = axis.program(i), at = x - axis.start(i), edges = axis.edgesOf(i);
  if (at < 0 || x >= axis.stop(i) || program.nOps === 0)
    return -1;
  if (!edges)
    return Math.min(program.nOps - 1, Math.floor(at));
  let lo = 0, hi = program.nOps;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if (edges[mid] <= at)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

function edgeOf(axis, i, position) {
  const edges = axis.edgesOf(i);
  return axis.start(i) + (edges ? edges[position] : position);
}

/* The moment between x0 and x1 when the most lives: [instance, op], or null between two runs. */
function busiestIn(axis, x0, x1) {
  if (axis.count === 0 || x0 >= axis.finish)
    return null;
  let first = axis.find(x0);
  if (axis.stop(first) <= x0)
    first++;
  if (first >= axis.count || axis.start(first) >= x1)
    return null;
  const last = axis.find(x1);
  let best = null;
  const offer = (i, op) => {
    if (op >= 0 && (!best || axis.program(i).total[op] > axis.program(best[0]).total[best[1]]))
      best = [i, op];
  };
  const part = (i) => {
    const program = axis.program(i);
    const lo = Math.max(0, opAt(axis, i, Math.max(x0, axis.start(i))));
    const to = x1 >= axis.stop(i) ? program.nOps - 1 : Math.max(lo, opAt(axis, i, x1));
    const hi = edgeOf(axis, i, to) >= x1 && to > lo ? to : to + 1;
    if (program.nOps)
      offer(i, program.pyramid.largest(lo, hi));
  };
  part(first);
  if (last > first)
    part(last);
  if (last > first + 1) {
    const i = axis.busiest(first + 1, last);
    offer(i, axis.program(i).peak);
  }
  return best;
}

/* ---- what is looked at -------------------------------------------------------------------- */

class Zoom {
  constructor(changed) {
    Object.assign(this, {min: 0, max: 1, from: 0, to: 1, least: 1e-9, changed});
  }

  domain(min, max, least) {
    Object.assign(this, {min, max: Math.max(max, min + least), least});
    this.fit();
  }

  set(from, to) {
    let length = Math.min(Math.max(to - from, this.least), this.max - this.min);
    const at = Math.min(Math.max(from, this.min), this.max - length);
    this.from = at;
    this.to = at + length;
    this.changed();
  }

  fit() {
    this.set(this.min, this.max);
  }

  get length() {
    return this.to - this.from;
  }

  /* factor below 1 shows less; `at` stays where it is. */
  by(factor, at) {
    const length = Math.min(Math.max(this.length * factor, this.least), this.max - this.min);
    const share = (at - this.from) / this.length;
    this.set(at - share * length, at - share * length + length);
  }

  pan(share) {
    this.set(this.from + share * this.length, this.to + share * this.length);
  }

  /* Moves as little as shows x. */
  show(x) {
    if (x < this.from)
      this.set(x, x + this.length);
    else if (x > this.to)
      this.set(x - this.length, x);
  }
}

/* Wheel, drag and double click of a chart: `zooms` has {x} and maybe {y}. A wheel scrolls the page
 * unless Ctrl is held or the chart has the focus. `click` gets what was no drag. */
function steer(canvas, zooms, box, click) {
  let drag = null;
  const xAt = (event) => (event.offsetX - box().left) / box().width;
  const yAt = (event) => 1 - (event.offsetY - box().top) / box().height;
  canvas.addEventListener('wheel', (event) => {
    const x = zooms.x, sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !sideways && !event.altKey && document.activeElement !== canvas)
      return;
    event.preventDefault();
    const delta = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 30 : 1);
    if (sideways)
      x.pan((event.deltaX || event.deltaY) / 800);
    else if (event.altKey && zooms.y)
      zooms.y.by(Math.exp(delta / 500), zooms.y.from + yAt(event) * zooms.y.length);
    else
      x.by(Math.exp(delta / 500), x.from + xAt(event) * x.length);
  }, {passive: false});
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0)
      return;
    drag = {x: event.offsetX, y: event.offsetY, from: zooms.x.from, low: zooms.y && zooms.y.from, moved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!drag)
      return;
    drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 4;
    if (!drag.moved)
      return;
    const from = drag.from - (event.offsetX - drag.x) / box().width * zooms.x.length;
    zooms.x.set(from, from + zooms.x.length);
    if (zooms.y) {
      const low = drag.low + (event.offsetY - drag.y) / box().height * zooms.y.length;
      zooms.y.set(low, low + zooms.y.length);
    }
  });
  canvas.addEventListener('pointerup', (event) => {
    if (drag && !drag.moved)
      click(event);
    drag = null;
  });
  canvas.addEventListener('pointercancel', () => {
    drag = null;
  });
  canvas.addEventListener('dblclick', (event) => zooms.x.by(0.25, zooms.x.from + xAt(event) * zooms.x.length));
}

/* A canvas as large as its element, in the screen's own pixels; for paper as wide as a page. */
function fitCanvas(canvas) {
  const scale = theme.printing ? 2.5 : Math.max(1, window.devicePixelRatio || 1);
  const width = theme.printing ? 700 : canvas.clientWidth || canvas.parentElement.clientWidth, height = canvas.clientHeight;
  const w = Math.max(1, Math.round(width * scale)), tall = Math.max(1, Math.round(height * scale));
  if (canvas.width !== w || canvas.height !== tall) {
    canvas.width = w;
    canvas.height = tall;
  }
  const to = canvas.getContext('2d');
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  return {to, width, height, scale};
}

/* For paper, where an upper canvas hides the lower one: both as one picture in the lower one. */
function flatten(lower, upper) {
  const to = lower.getContext('2d');
  to.setTransform(1, 0, 0, 1, 0, 0);
  if (upper.width && upper.height && lower.width && lower.height)
    to.drawImage(upper, 0, 0);
}
