/* The top of the page: the peak and where it is, predicted against measured, what makes it up. */

class Summary {
  constructor(app) {
    this.app = app;
  }

  draw() {
    const {report, program} = this.app;
    this.head([report]);
    byId('peak-card').replaceChildren(...(program ? this.peak(program) : [h('p', {}, 'The file has no program.')]));
    byId('phase-card').replaceChildren(...(program ? this.phases(report, program) : []));
    byId('size-card').replaceChildren(...(program ? this.sizes(report, program) : []));
    const grave = this.grave(report), notes = [...grave, ...this.notes(report)];
    byId('grave').hidden = grave.length === 0;
    byId('grave').replaceChildren(...grave.map((note) => h('div', {}, note)));
    byId('notes').replaceChildren(...(notes.length ? notes : ['Nothing was left out.']).map((note) => h('li', {}, note)));
  }

  /* Of one run or of both. */
  head(reports) {
    const mark = (i) => reports.length > 1 ? `${'AB'[i]}: ` : '';
    byId('title').textContent = reports.map((report, i) => mark(i) + (report.words.model || report.words.path || 'run')).join(', ');
    byId('about').replaceChildren(...reports.flatMap((report, i) => [h('div', {}, mark(i), ...this.about(report))]));
  }

  about(report) {
    const w = report.words;
    const parts = [!report.own ? `from ${w.tool}` : null, w.device ? `on ${w.device}` : null,
      w.batch >= 0 ? `batch ${w.batch}` : report.own ? 'batch not given' : null, report.own ? `seed ${w.seed ?? 'not given'}` : null,
      w.data ? `data ${w.data}` : null, w.created ? `begun ${w.created}` : null];
    return [h('span', {}, parts.filter(Boolean).join(', ')), h('br'), h('code', {}, w.command || w.path)];
  }

  peak(program) {
    const op = program.peak, layer = program.opText('layer', op);
    const whole = program.peakBytes;
    const shares = program.roles.map((role, k) => ({role, bytes: program.live[k][op] || 0}))
      .filter((share) => share.bytes > 0);
    const bar = h('div', {class: 'bar', role: 'img', 'aria-label':
      `shares: ${shares.map((s) => `${s.role} ${fmtShare(s.bytes, whole)}`).join(', ')}`},
    ...shares.map((share) => {
      const part = h('span', {title: `${share.role}: ${fmtBytes(share.bytes)}`});
      part.style.width = `${100 * share.bytes / whole}%`;
      part.style.backgroundColor = roleColor(share.role);
      return part;
    }));
    const rows = shares.sort((a, b) => b.bytes - a.bytes).map((share) => h('tr', {}, h('td', {}, swatch(share.role), share.role),
      h('td', {class: 'number'}, bytesCell(share.bytes)), h('td', {class: 'number'}, fmtShare(share.bytes, whole))));
    return [h('h2', {}, program.report.own ? `Peak of ${program.title()}` : 'Peak'), h('p', {class: 'figure', id: 'peak-figure'}, bytesElement(whole)),
      h('p', {class: 'where', id: 'peak-where'}, program.nOps ? [
        h('strong', {title: program.opText('name', op)}, short(program.opText('name', op))), ` (${program.report.word} ${fmtInt(op + 1)} of ${fmtInt(program.nOps)}) in `,
        h('strong', {}, PHASES[program.ops.phase[op]]), layer ? [', layer ', h('strong', {title: layer}, short(layer))] : []] : 'nothing ran'),
      bar, h('table', {class: 'plain', id: 'peak-roles'}, h('tbody', {}, ...rows))];
  }

  /* Of the runs of a program: the highest peak that was measured in each phase, and whether all are
   * as predicted. */
  phases(report, program) {
    const runs = report.runsOf(program), predicted = report.own && !program.words.immediate && program.words.phases;
    let differing = 0;
    const medians = PHASES.map((phase, k) => {
      const times = runs.map((run) => report.phases[k].ns[run]).sort((a, b) => a - b);
      return runs.length ? times[times.length >> 1] : 0;
    }), timeText = timesUpTo(Math.max(...medians));
    const rows = PHASES.map((phase, k) => {
      const peaks = report.phases[k].peak;
      let most = 0, apart = 0;
      for (const run of runs) {
        most = Math.max(most, peaks[run]);
        apart += predicted && peaks[run] !== predicted[k].peak_bytes ? 1 : 0;
      }
      differing += apart;
      const time = medians[k];
      return h('tr', {}, h('th', {scope: 'row'}, phase),
        h('td', {class: 'number'}, predicted ? bytesCell(predicted[k].peak_bytes) : '\u2013'),
        h('td', {class: 'number'}, runs.length ? bytesCell(most) : '\u2013'),
        h('td', {class: apart ? 'bad' : 'good'}, !predicted || !runs.length ? '' : apart ? `\u2260 in ${fmtInt(apart)}` : '='),
        h('td', {class: 'number'}, time ? timeText(time) : ''));
    });
    const verdict = !runs.length ? 'no run of it is in the file' : !predicted ?
      `nothing was predicted: ${report.own ? 'it ran op by op' : 'another tool recorded it'}` :
      differing ? `measured differs from predicted in ${fmtInt(differing)} phases` :
        `measured equals predicted, to the byte, in ${fmtInt(runs.length)} run${runs.length > 1 ? 's' : ''}`;
    return [h('h2', {}, 'Phases'), h('table', {class: 'plain', id: 'phases'}, h('thead', {}, h('tr', {},
      ...['phase', 'predicted', 'measured', '', 'time'].map((title, i) => h('th', {scope: 'col', class: i ? 'number' : ''}, title)))),
    h('tbody', {}, ...rows)), h('p', {class: differing ? 'bad' : 'faint', id: 'verdict'}, verdict)];
  }

  sizes(report, program) {
    const w = program.words, runs = report.runsOf(program);
    const times = runs.filter((run) => report.runs.clock[run] !== UNTIMED).map((run) => report.runs.ns[run]).sort((a, b) => a - b);
    let padding = 0;
    for (let i = 0; i < program.n; i++)
      if (program.size[i] > 0 && program.lives(i, program.peak))
        padding += program.padding[i];
    const rows = [['live at the peak', program.peakBytes], ['of it padding', padding], ['model', w.model_bytes],
      ['step arena', w.arena_bytes], ['its lower bound', w.lower_bound_bytes], ['batches', w.data_bytes],
      ['reserved together', w.total_bytes]].filter(([name, bytes]) => bytes > 0 || name === 'of it padding');
    const facts = [[`${report.word}s`, fmtInt(program.nOps)], ['tensors', fmtInt(program.n)], ['runs', fmtInt(runs.length)]];
    if (times.length && times[times.length >> 1] > 0)
      facts.push(['median time of a run', fmtNs(times[times.length >> 1])]);
    return [h('h2', {}, 'Sizes'), h('table', {class: 'plain'}, h('tbody', {},
      ...rows.map(([name, bytes]) => h('tr', {}, h('th', {scope: 'row'}, name), h('td', {class: 'number'}, bytesCell(bytes)))),
      ...facts.map(([name, text]) => h('tr', {}, h('th', {scope: 'row'}, name), h('td', {class: 'number'}, text)))))];
  }

  /* Warnings that a reader needs before the figures: they stand above them. */
  grave(report) {
    const w = report.words, out = [], {dropped} = report.runs;
    if (report.own && !w.ended)
      out.push('The file has no end: the run still goes on, or it stopped before its end.');
    if (w.ended === 'failed' || w.ended === 'interrupted')
      out.push(`The run ${w.ended === 'failed' ? 'failed' : 'was interrupted'}${w.why ? `: ${w.why}` : '.'}`);
    const lost = dropped.reduce((sum, n) => sum + n, 0), runs = dropped.reduce((sum, n) => sum + (n ? 1 : 0), 0);
    if (lost)
      out.push(`${fmtInt(lost)} events were dropped in ${fmtInt(runs)} runs: the recorder's ring was full.`);
    for (const program of report.programs)
      if (program.words.peak_bytes && program.peakBytes !== program.words.peak_bytes)
        out.push(`${program.title()}: what lives at the peak adds up to ${fmtInt(program.peakBytes)} bytes; the file says ` +
          `${fmtInt(program.words.peak_bytes)}.`);
    return out;
  }

  notes(report) {
    const w = report.words, out = [], runs = report.runs;
    let logged = 0, untimed = 0;
    for (let i = 0; i < report.nRuns; i++) {
      logged += runs.logged[i];
      untimed += runs.clock[i] === UNTIMED ? 1 : 0;
    }
    if (logged)
      out.push(`${fmtInt(logged)} events of the arena were recorded one by one.`);
    if (w.skipped_runs)
      out.push(`${fmtInt(w.skipped_runs)} runs of the file are not shown.`);
    if (w.clocked_every > 1)
      out.push(`Clocks of single ops are kept for one run in ${fmtInt(w.clocked_every)}; others share the time of a phase evenly.`);
    if (untimed)
      out.push(`${fmtInt(untimed)} run${untimed > 1 ? 's have' : ' has'} no clock: positions are counted in ${report.word}s.`);
    return out;
  }
}
