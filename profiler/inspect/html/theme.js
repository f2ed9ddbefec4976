/* Colours: of the page from style.css, of roles from here. Neighbours in the stack differ in
 * lightness too, and are parted by a line, so that they can be distinguished without colour. */

const ROLE_COLORS = { /* light, dark */
  parameter: ['#3f73a8', '#5b8fc7'],
  optimizer_state: ['#9bd3ea', '#a9dcf0'],
  buffer: ['#86862a', '#8f8f3a'],
  state: ['#7fd3c3', '#8fe3d5'],
  knob: ['#6b6b6b', '#8a8a8a'],
  input: ['#dccb74', '#e3d58c'],
  saved: ['#a04a94', '#bf70b4'],
  activation: ['#f0a35e', '#f2b27a'],
  gradient: ['#b3283c', '#d65a6b'],
  temporary: ['#bdbdbd', '#c9c9c9'],
  workspace: ['#7c2455', '#a85684'],
  metric: ['#2d8a4e', '#57b27a'],
  output: ['#483c96', '#7467cb'],
  unknown: ['#8a8478', '#b5ae9f'],
};

const theme = {dark: false, printing: false};

function roleColor(role) {
  const pair = ROLE_COLORS[role] || ROLE_COLORS.unknown;
  return pair[theme.dark ? 1 : 0];
}

/* A colour as the pixel of an ImageData, dimmed: 1 as it is. */
function pixelOf(color, dim) {
  const part = (at) => Math.round(parseInt(color.slice(at, at + 2), 16) * dim);
  return (255 << 24 | part(5) << 16 | part(3) << 8 | part(1)) >>> 0;
}

function readTheme() {
  const wanted = document.documentElement.dataset.theme;
  const dark = wanted ? wanted === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  theme.dark = dark && !theme.printing;
  document.documentElement.classList.toggle('dark', theme.dark);
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'faint', 'line', 'surface', 'raised', 'accent', 'other'])
    theme[name] = style.getPropertyValue(`--${name}`).trim();
}

function toggleTheme() {
  document.documentElement.dataset.theme = theme.dark ? 'light' : 'dark';
  readTheme();
  say(theme.dark ? 'dark colours' : 'light colours');
}

function swatch(role) {
  const element = h('span', {class: 'swatch', 'data-role': role, 'aria-hidden': 'true'});
  element.style.backgroundColor = roleColor(role);
  return element;
}

/* After another theme: what has a role's colour gets the new one. */
function recolor() {
  for (const element of document.querySelectorAll('[data-role]'))
    element.style.backgroundColor = roleColor(element.dataset.role);
}
