/* The common parts of charts: colours, a canvas with an axis of bytes, and the x axis of a run. */

const GUTTER = 76; /* for figures left of the charts */
const MARGIN = 20; /* right of them */
const INK = '#1d2329', FAINT = '#5c6670', LINE = '#d9dee3', SURFACE = '#ffffff', ACCENT = '#0b62c4', OTHER = '#9a6a1b';

/* Neighbours in the stack differ in lightness too, and are parted by a line, so that they can be distinguished
 * without colour. */
const ROLE_COLORS = {
  parameter: '#3f73a8', optimizer_state: '#9bd3ea', buffer: '#86862a', state: '#7fd3c3', knob: '#6b6b6b', input: '#dccb74',
  saved: '#a04a94', activation: '#f0a35e', gradient: '#b3283c', temporary: '#bdbdbd', workspace: '#7c2455', metric: '#2d8a4e',
  output: '#483c96', unknown: '#8a8478',
};

function roleColor(role) {
  return ROLE_COLORS[role] || ROLE_COLORS.unknown;
}

function swatch(role) {
  const element = h('span', {class: 'swatch', 'aria-hidden': 'true'});
  element.style.backgroundColor = roleColor(role);
  return element;
}

/* The canvas as large as its element, in the screen's own pixels, with marks for 0 to `most` bytes at the left;
 * `top` and `bottom` pixels are left free. For paper it is as wide as a page. */
function chartOf(canvas, most, top, bottom) {
  const scale = chartOf.printing ? 2.5 : Math.max(1, window.devicePixelRatio || 1);
  const width = chartOf.printing ? 700 : canvas.clientWidth, height = canvas.clientHeight, to = canvas.getContext('2d');
  canvas.width = Math.max(1, Math.round(width * scale)); /* which clears it */
  canvas.height = Math.max(1, Math.round(height * scale));
  to.setTransform(scale, 0, 0, scale, 0, 0);
  const box = {left: GUTTER, top, width: Math.max(1, width - GUTTER - MARGIN), height: Math.max(1, height - top - bottom)};
  const yOf = (bytes) => box.top + box.height * (1 - bytes / most), text = axisBytes(most);
  to.font = '11px system-ui, sans-serif';
  to.textBaseline = 'middle';
  to.textAlign = 'right';
  for (const bytes of ticks(0, most, box.height / 45, true)) {
    to.fillStyle = FAINT;
    to.fillText(text(bytes), box.left - 6, Math.max(8, yOf(bytes)));
    to.fillStyle = LINE;
    to.fillRect(box.left, Math.round(yOf(bytes)), box.width, 1);
  }
  to.fillStyle = FAINT;
  to.textAlign = 'center';
  return {to, box, yOf, scale};
}

/* Marks below a chart. */
function markX(chart, until, text) {
  const {to, box} = chart;
  for (const x of ticks(0, until, box.width / 110, false))
    to.fillText(text(x), box.left + x / until * box.width, box.top + box.height + 13);
}

/* The column of a chart under the pointer, or -1. */
function columnAt(chart, event) {
  const column = Math.floor(event.offsetX - chart.box.left);
  return column >= 0 && column < chart.box.width ? column : -1;
}

/* Steps, not slopes: what lives changes at once. One height a column. */
function traceSteps(chart, heights, back) {
  const {to, box, yOf} = chart, n = heights.length;
  for (let k = 0; k < n; k++) {
    const i = back ? n - 1 - k : k, y = yOf(heights[i]);
    to.lineTo(box.left + i + (back ? 1 : 0), y);
    to.lineTo(box.left + i + (back ? 0 : 1), y);
  }
}

/* One run from begin to end, in ops or, where it has `edges`, in nanoseconds: op i lies from edge(i) to edge(i + 1). */
class Axis {
  constructor(program, edges) {
    Object.assign(this, {program, edges});
    this.finish = this.edge(program.nOps) || 1;
  }

  edge(position) {
    return this.edges ? this.edges[position] : position;
  }

  /* The op that runs at x; the last one after the end. */
  opAt(x) {
    let lo = 0, hi = this.program.nOps;
    while (hi - lo > 1) {
      const mid = (lo + hi) >> 1;
      if (this.edge(mid) <= x)
        lo = mid;
      else
        hi = mid;
    }
    return lo;
  }

  /* The ops [first, last) that run between two places. */
  opsIn(x0, x1) {
    const first = this.opAt(x0), last = this.opAt(x1);
    return [first, this.edge(last) >= x1 && last > first ? last : last + 1];
  }
}
