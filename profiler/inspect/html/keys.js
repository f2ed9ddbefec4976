/* The keyboard. Keys of a chart are heard where it has the focus, the others everywhere but in a
 * field for text. The list in the help is this list. */

/* Zooming and panning; true where the key was one of these. */
function zoomKey(event, zoom, at) {
  const acts = {'+': () => zoom.by(0.6, at), '=': () => zoom.by(0.6, at), '-': () => zoom.by(1 / 0.6, at),
    '0': () => zoom.fit(), PageUp: () => zoom.pan(-0.8), PageDown: () => zoom.pan(0.8)};
  if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey)
    return false;
  event.preventDefault();
  acts[event.key]();
  return true;
}

const HELP = [
  ['Everywhere', [
    ['?', 'this list'], ['/', 'search the tensors'], ['p', 'go to the peak'], ['t', 'light or dark'],
    ['[ and ]', 'the run before, the run after'], ['Esc', 'close, or clear the choice of a tensor'],
    ['Tab', 'from chart to table to button'],
  ]],
  ['In the timeline and the plan', [
    ['\u2190 \u2192', 'one op back, one op on; with Shift a twentieth of what is in view'],
    ['\u2191 \u2193', 'the tensors that live there, smaller and larger'],
    ['Home End', 'first op, last op'], ['+ \u2212', 'zoom in, zoom out, at the cursor'], ['0', 'show all'],
    ['PageUp PageDown', 'pan'], ['Enter', 'zoom to the life of the chosen tensor'],
    ['Wheel', 'zoom, with Ctrl or after a click; with Shift pan; with Alt zoom the plan\u2019s addresses'],
    ['Drag', 'pan'], ['Double click', 'zoom in'],
  ]],
  ['In the list of layers', [
    ['\u2191 \u2193', 'row by row'], ['\u2192 \u2190', 'open, close'], ['Enter', 'search its tensors'],
  ]],
  ['In the chart of runs', [['\u2190 \u2192', 'the run before, the run after; PageUp, PageDown: a hundred']]],
];

function fillHelp() {
  byId('help-list').replaceChildren(...HELP.flatMap(([title, rows]) => [h('h3', {}, title),
    h('table', {class: 'plain'}, h('tbody', {}, ...rows.map(([key, what]) =>
      h('tr', {}, h('th', {scope: 'row'}, h('kbd', {}, key)), h('td', {}, what)))))]));
}

function chartKey(app, event) {
  if (zoomKey(event, app.zoom, (app.cursorX() + app.cursorX(1)) / 2))
    return;
  const far = Math.max(1, Math.round(app.program.nOps * Math.min(1, app.zoom.length / (app.zoom.max - app.zoom.min)) / 20));
  const acts = {ArrowLeft: () => app.step(event.shiftKey ? -far : -1), ArrowRight: () => app.step(event.shiftKey ? far : 1),
    Home: () => app.step(-Infinity), End: () => app.step(Infinity), ArrowDown: () => app.nextLive(1),
    ArrowUp: () => app.nextLive(-1), Enter: () => app.zoomToSelected()};
  if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey)
    return;
  event.preventDefault();
  acts[event.key]();
}

function listen(app) {
  fillHelp();
  for (const id of ['timeline-over', 'plan-over'])
    byId(id).addEventListener('keydown', (event) => chartKey(app, event));
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest('input, select, textarea');
    const help = byId('help');
    if (event.key === 'Escape') {
      if (typing && byId('search').value) {
        byId('search').value = '';
        app.tensors.draw();
      } else if (!help.open) {
        app.select(-1);
      }
      return;
    }
    if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey)
      return;
    const acts = {'?': () => help.showModal(), '/': () => byId('search').focus(), p: () => app.toPeak(),
      t: () => app.changeTheme(), '[': () => app.chooseRun(app.run - 1), ']': () => app.chooseRun(app.run + 1)};
    if (!acts[event.key])
      return;
    event.preventDefault();
    acts[event.key]();
  });
}
