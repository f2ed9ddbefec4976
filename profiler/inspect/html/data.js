'use strict';
/* The data of the report: one element for each list of numbers (README.md), one of JSON for each run. Everything
 * here is typed arrays; no value or op is an object. */

const PHASES = ['data', 'forward', 'loss', 'backward', 'step'];
const SEGMENTS = ['step arena', 'model', 'inputs', 'memory'];
const STEP = 0, MEMORY = 3;
const UNTIMED = 0, BY_OPS = 2;
/* The order in which roles are stacked: what lives long lies below. */
const ROLE_ORDER = ['parameter', 'optimizer_state', 'buffer', 'state', 'knob', 'input', 'saved',
  'activation', 'gradient', 'temporary', 'workspace', 'metric', 'output', 'unknown'];

function decodeBase64(text) {
  if (Uint8Array.fromBase64)
    return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++)
    bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/* Numbers written as differences: back to themselves. */
function addUp(steps, factor) {
  let sum = 0;
  for (let i = 0; i < steps.length; i++)
    sum += steps[i];
  const out = sum * factor < 2 ** 32 ? new Uint32Array(steps.length) : new Float64Array(steps.length);
  sum = 0;
  for (let i = 0; i < steps.length; i++) {
    sum += steps[i];
    out[i] = sum * factor;
  }
  return out;
}

/* The list of that name, or null. Its text is given back. */
function readColumn(id) {
  const element = document.getElementById(id);
  if (!element)
    return null;
  const kinds = {u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array};
  const n = Number(element.dataset.n), factor = Number(element.dataset.factor);
  const bytes = decodeBase64(element.textContent);
  const differences = element.dataset.steps === '1';
  const raw = new kinds[element.dataset.type](bytes.buffer, 0, n);
  element.remove();
  if (differences)
    return addUp(raw, factor);
  if (factor === 1)
    return raw;
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++)
    out[i] = raw[i] * factor;
  return out;
}

/* Where the largest of the numbers [lo, hi) is, which are not none; the first of equal ones. */
function largest(numbers, lo, hi) {
  let best = lo;
  for (let i = lo + 1; i < hi; i++)
    if (numbers[i] > numbers[best])
      best = i;
  return best;
}

/* ---- a program ---------------------------------------------------------------------------- */

class Program {
  constructor(report, index, words) {
    const get = (name) => readColumn(`t${report.which}.p${index}.${name}`);
    Object.assign(this, {report, index, words});
    this.ops = {name: get('op.name'), layer: get('op.layer'), phase: get('op.phase')};
    this.nOps = this.ops.name.length;
    for (const name of ['id', 'alias', 'name', 'layer', 'op', 'role', 'phase', 'segment', 'bytes', 'padding',
      'offset', 'birth'])
      this[name] = get(name);
    this.n = this.birth.length;
    this.readEnds(get('length'));
    this.readSizes();
    this.findRoles();
    this.sumRoles();
    this.findPeak();
    this.countPhases();
  }

  /* `end`: the first op that runs without the value. */
  readEnds(length) {
    this.end = new Uint32Array(this.n);
    for (let i = 0; i < this.n; i++)
      this.end[i] = Math.min(this.birth[i] + length[i] + 1, this.nOps);
  }

  /* `size`: its own bytes with padding; a value in the place of another has none. */
  readSizes() {
    this.size = new Float64Array(this.n);
    for (let i = 0; i < this.n; i++)
      this.size[i] = this.alias[i] ? 0 : this.bytes[i] + this.padding[i];
  }

  /* `roles`, in the order of the stack, and the place of each value's role in it. */
  findRoles() {
    const {strings} = this.report, place = new Uint8Array(strings.length), numbers = [];
    for (const number of this.role)
      if (!place[number]) {
        place[number] = 1;
        numbers.push(number);
      }
    const rank = (name) => {
      const at = ROLE_ORDER.indexOf(name);
      return at < 0 ? ROLE_ORDER.length : at;
    };
    numbers.sort((a, b) => rank(strings[a]) - rank(strings[b]) || (strings[a] < strings[b] ? -1 : 1));
    numbers.forEach((number, k) => {
      place[number] = k;
    });
    this.roles = numbers.map((number) => strings[number]);
    this.roleOf = new Uint8Array(this.n);
    for (let i = 0; i < this.n; i++)
      this.roleOf[i] = place[this.role[i]];
  }

  /* Live bytes while each op runs: `total`, and `live[k]` of roles[k]. */
  sumRoles() {
    const {n, nOps, birth, end, size, roleOf} = this;
    this.live = this.roles.map(() => new Float64Array(nOps + 1));
    for (let i = 0; i < n; i++) {
      const live = this.live[roleOf[i]];
      live[Math.min(birth[i], nOps)] += size[i];
      live[end[i]] -= size[i];
    }
    const total = new Float64Array(nOps + 1);
    for (const live of this.live) {
      let sum = 0;
      for (let i = 0; i < nOps; i++) {
        sum += live[i];
        live[i] = sum;
        total[i] += sum;
      }
      live[nOps] = 0;
    }
    this.total = total;
  }

  /* How often the phase has changed up to each op, and how many ops each phase has. */
  countPhases() {
    const {phase} = this.ops;
    this.phaseOps = PHASES.map(() => 0);
    this.changes = new Uint32Array(this.nOps);
    for (let i = 0; i < this.nOps; i++) {
      this.phaseOps[phase[i]]++;
      this.changes[i] = i ? this.changes[i - 1] + (phase[i] === phase[i - 1] ? 0 : 1) : 0;
    }
  }

  findPeak() {
    this.peak = this.nOps ? largest(this.total, 0, this.nOps) : 0;
    const said = this.words.peak_op;
    if (said < this.nOps && this.total[said] === this.total[this.peak])
      this.peak = said;
    this.peakBytes = this.total[this.peak];
  }

  text(list, i) {
    return this.report.strings[this[list][i]];
  }

  /* For a list: not too long, never nothing. */
  nameOf(i) {
    return short(this.text('name', i)) || `value ${this.id[i]}`;
  }

  opText(list, i) {
    return i < this.nOps ? this.report.strings[this.ops[list][i]] : '';
  }

  lives(i, position) {
    return this.birth[i] <= position && position < this.end[i];
  }

  /* Of what has bytes and lives while an op runs: the indices, largest first. */
  liveAt(position) {
    const out = [];
    for (let i = 0; i < this.n; i++)
      if (this.size[i] > 0 && this.lives(i, position))
        out.push(i);
    return out.sort((a, b) => this.size[b] - this.size[a] || a - b);
  }

  title() {
    const w = this.words;
    const exec = w.exec ? `exec ${w.exec}, ` : '';
    return `${exec}${w.immediate ? 'trace' : 'program'} ${w.number}: ${w.run || 'run'}` +
      (w.batch >= 0 ? `, batch ${w.batch}` : '');
  }
}

/* ---- runs --------------------------------------------------------------------------------- */

class Report {
  constructor(which) {
    const element = document.getElementById(`t${which}`);
    this.which = which;
    this.words = JSON.parse(element.textContent);
    element.remove();
    this.strings = this.words.strings;
    this.own = this.words.tool === 'stepwell';
    this.word = this.own ? 'op' : 'event'; /* what positions count */
    this.programs = this.words.programs.map((words, i) => new Program(this, i, words));
    this.runs = {};
    for (const name of ['program', 'step', 'micro', 'at_ns', 'ns', 'clock', 'peak', 'logged', 'dropped', 'loss'])
      this.runs[name] = readColumn(`t${which}.run.${name}`);
    this.nRuns = this.runs.step.length;
    this.phases = PHASES.map((phase) => Object.fromEntries(['peak', 'end', 'ns'].map((name) =>
      [name, readColumn(`t${which}.run.${phase}.${name}`)])));
    this.clocks = new Map(); /* run: the clocks of its ops */
    for (let i = 0; i < this.nRuns; i++)
      if (this.runs.clock[i] === BY_OPS)
        this.clocks.set(i, readColumn(`t${which}.r${i}.op_ns`));
    this.main = this.programs[Math.max(0, this.words.main)] || null;
  }

  runsOf(program) {
    const out = [];
    for (let i = 0; i < this.nRuns; i++)
      if (this.runs.program[i] === program.index)
        out.push(i);
    return out;
  }

  /* Where each op of a run begins, in nanoseconds since the run began, and where the last one
   * ends; ops whose clocks were not kept share their phase evenly. */
  edges(run) {
    const program = this.programs[this.runs.program[run]];
    const out = new Float64Array(program.nOps + 1), clocks = this.clocks.get(run);
    const share = PHASES.map((_, k) => this.phases[k].ns[run] / Math.max(1, program.phaseOps[k]));
    const untimed = this.runs.clock[run] === UNTIMED;
    for (let i = 0; i < program.nOps; i++)
      out[i + 1] = out[i] + (clocks ? clocks[i] : untimed ? 1 : share[program.ops.phase[i]]);
    return out;
  }

  stepText(run) {
    const micro = this.runs.micro[run];
    return `step ${fmtInt(this.runs.step[run])}` + (micro ? `, part ${micro}` : '');
  }
}
