/* Figures as text, and elements. */

function fmtInt(x) {
  return String(Math.round(x)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* 3.06 MiB; below a KiB whole bytes. */
function fmtBytes(x) {
  const sign = x < 0 ? '-' : '', units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = Math.abs(x), unit = 0;
  while (size >= 1023.995 && unit + 1 < units.length) {
    size /= 1024;
    unit++;
  }
  return `${sign}${unit ? size.toFixed(2) : Math.round(size)} ${units[unit]}`;
}

function fmtSigned(x) {
  return (x > 0 ? '+' : '') + fmtBytes(x);
}

function fmtShare(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '';
}

function fmtNs(x) {
  const units = ['ns', '\u00b5s', 'ms', 's'];
  let unit = 0;
  while (x >= 999.995 && unit + 1 < units.length) {
    x /= 1000;
    unit++;
  }
  return `${unit ? x.toFixed(2) : Math.round(x)} ${units[unit]}`;
}

/* One unit for a column of times up to `most`. */
function timesUpTo(most) {
  const units = ['ns', '\u00b5s', 'ms', 's'];
  let unit = 0;
  while (most >= 10000 && unit + 1 < units.length) {
    most /= 1000;
    unit++;
  }
  return (x) => `${unit ? (x / 1000 ** unit).toFixed(2) : Math.round(x)} ${units[unit]}`;
}

/* A name that is too long for a table: its begin and its end. */
function short(text) {
  return text.length > 72 ? `${text.slice(0, 44)}\u2026${text.slice(-26)}` : text;
}

/* A name that may be broken after its slashes and dots. */
function breakable(name) {
  return name.split(/(?<=[/._])/).flatMap((piece) => [piece, document.createElement('wbr')]);
}

/* h('td', {class: 'number', title: '...'}, 'text', element, ...); on... are listeners. */
function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else if (value === true)
      element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
  for (const child of children.flat(3))
    if (child !== null && child !== undefined)
      element.append(child);
  return element;
}

const byId = (id) => document.getElementById(id);

/* In a column: all digits, so that units do not mix; rounded when the pointer rests on it. */
function bytesCell(x, signed) {
  return h('span', {title: signed ? fmtSigned(x) : fmtBytes(x)}, (signed && x > 0 ? '+' : '') + (x < 0 ? '-' : '') + fmtInt(Math.abs(x)));
}

/* One unit for all marks of an axis up to `most` bytes. */
function axisBytes(most) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (most >= 1024 && unit + 1 < units.length) {
    most /= 1024;
    unit++;
  }
  return (x) => `${unit ? (x / 1024 ** unit).toFixed(2) : x} ${units[unit]}`;
}

/* A figure whose exact bytes show when the pointer rests on it. */
function bytesElement(x, signed) {
  return h('span', {title: `${fmtInt(x)} bytes`}, signed ? fmtSigned(x) : fmtBytes(x));
}

/* Round values for an axis from `lo` to `hi`, about `n`; bytes in powers of two. */
function ticks(lo, hi, n, binary) {
  const raw = (hi - lo) / Math.max(1, n);
  if (!(raw > 0))
    return [];
  let step;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(raw));
  } else {
    const power = 10 ** Math.floor(Math.log10(raw));
    step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  }
  const out = [];
  for (let x = Math.ceil(lo / step) * step; x <= hi; x += step)
    out.push(x);
  return out;
}
