'use strict';
/* The data of the report: one element for each list of numbers (README.md), one of JSON for each run. Everything
 * here is typed arrays; no value or op is an object. */

const PHASES = ['data', 'forward', 'loss', 'backward', 'step'];
const SEGMENTS = ['step arena', 'model', 'inputs', 'memory'];
const STEP = 0, MEMORY = 3;
const UNTIMED = 0, BY_OPS = 2;
const BLOCK = 256;
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

/* ---- the largest of a range, at any zoom -------------------------------------------------- */

/* Over a list of numbers: where the largest of any range is, in time of its logarithm. Each level
 * has the place of the largest of sixteen places of the level below. */
class Pyramid {
  constructor(numbers) {
    this.numbers = numbers;
    this.levels = [];
    let n = numbers.length, below = null;
    while (n > 16) {
      const m = Math.ceil(n / 16), level = new Uint32Array(m);
      for (let i = 0; i < m; i++) {
        let best = below ? below[16 * i] : 16 * i;
        for (let k = 16 * i + 1; k < Math.min(16 * i + 16, n); k++) {
          const at = below ? below[k] : k;
          if (numbers[at] > numbers[best])
            best = at;
        }
        level[i] = best;
      }
      this.levels.push(level);
      below = level;
      n = m;
    }
  }

  /* Of [lo, hi), which is not empty; the first of equal ones within a block. */
  largest(lo, hi) {
    const x = this.numbers;
    let best = lo, level = -1;
    const take = (from, to) => {
      const places = level < 0 ? null : this.levels[level];
      for (let i = from; i < to; i++) {
        const at = places ? places[i] : i;
        if (x[at] > x[best])
          best = at;
      }
    };
    while (hi - lo > 32 && level + 1 < this.levels.length) {
      const up = Math.ceil(lo / 16), down = Math.floor(hi / 16);
      take(lo, up * 16);
      take(down * 16, hi);
      lo = up;
      hi = down;
      level++;
    }
    take(lo, hi);
    return best;
  }
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
    this.findBlocks();
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

  /* Live bytes while each op runs: `total`, and `live[k]` of roles[k]; `rest[k]`: of the model, which
   * lives between runs too. */
  sumRoles() {
    const {n, nOps, birth, end, size, roleOf, segment} = this;
    this.live = this.roles.map(() => new Float64Array(nOps + 1));
    this.rest = this.roles.map(() => 0);
    for (let i = 0; i < n; i++) {
      const live = this.live[roleOf[i]];
      live[Math.min(birth[i], nOps)] += size[i];
      live[end[i]] -= size[i];
      if (segment[i] === 1)
        this.rest[roleOf[i]] += size[i];
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
    this.pyramid = new Pyramid(total);
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

  /* For each BLOCK values the first birth and the last end, so that those out of view are passed by. */
  findBlocks() {
    const n = Math.ceil(this.n / BLOCK);
    this.blockFrom = new Uint32Array(n).fill(2 ** 32 - 1);
    this.blockUntil = new Uint32Array(n);
    for (let i = 0; i < this.n; i++) {
      const block = i / BLOCK | 0;
      this.blockFrom[block] = Math.min(this.blockFrom[block], this.birth[i]);
      this.blockUntil[block] = Math.max(this.blockUntil[block], this.end[i]);
    }
  }

  /* Calls act(i) for values that may live within ops [from, until). */
  eachIn(from, until, act) {
    for (let block = 0; block < this.blockFrom.length; block++)
      if (this.blockFrom[block] < until && this.blockUntil[block] > from)
        for (let i = block * BLOCK; i < Math.min(this.n, (block + 1) * BLOCK); i++)
          act(i);
  }

  findPeak() {
    this.peak = this.nOps ? this.pyramid.largest(0, this.nOps) : 0;
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
    this.eachIn(position, position + 1, (i) => {
      if (this.size[i] > 0 && this.lives(i, position))
        out.push(i);
    });
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
