/* Tables: any of them sorts by its columns; the tensors, found by words; the layers, a tree. */

/* The first `limit` of 0..n-1 by descending key, without sorting all of them. */
function foremost(n, keep, key, limit) {
  let best = [], floor = -Infinity, found = 0;
  const cut = () => {
    best.sort((a, b) => key(b) - key(a) || a - b);
    best.length = Math.min(best.length, limit);
    if (best.length === limit)
      floor = key(best[limit - 1]);
  };
  for (let i = 0; i < n; i++) {
    if (!keep(i))
      continue;
    found++;
    if (!(key(i) > floor) && floor !== -Infinity)
      continue;
    best.push(i);
    if (best.length > 4 * limit + 1000)
      cut();
  }
  cut();
  return {rows: best, found};
}

/* A head whose buttons choose the order. columns: {title, number}; order: {by, down}. */
function headOf(columns, order, changed) {
  return h('thead', {}, h('tr', {}, ...columns.map((column, k) => h('th', {scope: 'col', class: column.number ? 'number' : '',
    'aria-sort': order.by === k ? order.down ? 'descending' : 'ascending' : 'none'},
  h('button', {type: 'button', class: 'sort', onclick: () => {
    order.down = order.by === k ? !order.down : Boolean(column.number);
    order.by = k;
    changed(k);
  }}, column.title, h('span', {'aria-hidden': 'true'}, order.by === k ? order.down ? ' \u25be' : ' \u25b4' : ''))))));
}

/* Puts a table's new head and body in, keeping the focus on the same button of the head. */
function putTable(table, head, body) {
  const had = document.activeElement, inHead = had && table.contains(had) && had.closest('thead');
  const at = inHead ? [...inHead.querySelectorAll('button')].indexOf(had) : -1;
  table.replaceChildren(head, body);
  if (at >= 0)
    head.querySelectorAll('button')[at].focus();
}

/* ---- tensors ------------------------------------------------------------------------------ */

class Tensors {
  constructor(app) {
    this.app = app;
    this.order = {by: 4, down: true};
    this.limit = 100;
    this.open = new Set();
    this.columns = [{title: 'tensor', list: 'name'}, {title: 'layer', list: 'layer'}, {title: 'made by', list: 'op'},
      {title: 'role', list: 'role'}, {title: 'bytes', number: true}, {title: 'from', number: true},
      {title: 'to', number: true}, {title: 'at peak', number: true}];
    byId('search').addEventListener('input', () => {
      this.limit = 100;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.draw(), 60);
    });
    byId('more').addEventListener('click', () => {
      this.limit *= 4;
      this.draw();
    });
  }

  /* The order of texts, by number of string. */
  ranks(report) {
    if (this.ranked !== report) {
      this.ranked = report;
      const order = report.strings.map((_, i) => i).sort((a, b) => report.strings[a] < report.strings[b] ? -1 : 1);
      this.rank = new Uint32Array(order.length);
      order.forEach((number, at) => {
        this.rank[number] = at;
      });
    }
    return this.rank;
  }

  key(program) {
    const {by, down} = this.order, list = this.columns[by].list, sign = down ? 1 : -1;
    if (list) {
      const rank = this.ranks(program.report);
      return (i) => sign * rank[program[list][i]];
    }
    const of = [null, null, null, null, (i) => program.bytes[i], (i) => program.birth[i], (i) => program.end[i],
      (i) => program.lives(i, program.peak) ? program.size[i] : 0][by];
    return (i) => sign * of(i);
  }

  /* Every word has to occur in the name, layer, op, role or phase. */
  filter(program) {
    const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
    const low = words.length ? this.lower(program.report) : [];
    const hits = words.map((word) => Uint8Array.from(low, (text) => text.includes(word) ? 1 : 0));
    const {name, layer, op, role, phase} = program;
    return (i) => hits.every((hit) => hit[name[i]] | hit[layer[i]] | hit[op[i]] | hit[role[i]] | hit[phase[i]]);
  }

  lower(report) {
    if (this.lowered !== report) {
      this.lowered = report;
      this.low = report.strings.map((text) => text.toLowerCase());
    }
    return this.low;
  }

  /* By value the first of those that differ in their lives alone, and of each such a list: names of our own are
   * one tensor's. */
  groups(program) {
    if (this.grouped !== program) {
      this.grouped = program;
      this.first = new Uint32Array(program.n);
      this.same = new Map();
      const {name, layer, op, roleOf, size, alias} = program, of = new Map();
      for (let i = 0; i < program.n; i++) {
        const key = `${name[i]} ${layer[i]} ${op[i]} ${roleOf[i]} ${size[i]} ${alias[i] || program.report.own ? i : ''}`;
        if (!of.has(key))
          of.set(key, i);
        this.first[i] = of.get(key);
        if (!this.same.has(this.first[i]))
          this.same.set(this.first[i], []);
        this.same.get(this.first[i]).push(i);
      }
      this.open.clear();
    }
    return this;
  }

  draw() {
    const {program} = this.app;
    if (!program)
      return;
    const {first, same} = this.groups(program), wanted = this.filter(program), key = this.key(program);
    const weight = this.order.by === 4 ? (i) => key(i) * (this.open.has(first[i]) ? 1 : same.get(i).length) : key;
    const {rows, found} = foremost(program.n, (i) => wanted(i) && (first[i] === i || this.open.has(first[i])),
      (i) => first[i] === i ? weight(i) : key(i), this.limit);
    const body = h('tbody', {}, ...rows.map((i) => this.row(program, i)));
    putTable(byId('tensors'), headOf(this.columns, this.order, () => this.draw()), body);
    byId('found').textContent = `${fmtInt(rows.length)} of ${fmtInt(found)} tensors`;
    byId('in-place').hidden = !rows.some((i) => program.alias[i]);
    byId('more').hidden = rows.length === found;
  }

  row(program, i) {
    const role = program.roles[program.roleOf[i]], alias = program.alias[i];
    const equal = this.same.get(i), count = equal && !this.open.has(i) ? equal.length : 1;
    const bytes = alias ? h('span', {title: `in the place of ${program.text('name', alias - 1)}: no bytes of its own`},
      `(${fmtInt(program.bytes[i])})`) : bytesCell(program.bytes[i] * count);
    const go = () => {
      if (count > 1) {
        this.open.add(i);
        this.draw();
      } else {
        this.app.goToValue(i);
      }
    };
    return h('tr', {class: i === this.app.selected ? 'chosen' : '', 'data-value': i, onclick: go},
      h('th', {scope: 'row'}, h('button', {type: 'button', class: 'link', title: program.text('name', i), onclick: (event) => {
        event.stopPropagation();
        go();
      }}, count > 1 ? `${fmtInt(count)} \u00d7 ${program.nameOf(i)}` : program.nameOf(i))),
      h('td', {}, short(program.text('layer', i))), h('td', {}, short(program.text('op', i))), h('td', {}, swatch(role), role),
      h('td', {class: 'number'}, bytes), h('td', {class: 'number'}, fmtInt(program.birth[i] + 1)),
      h('td', {class: 'number'}, fmtInt(program.end[i])),
      h('td', {class: 'number'}, program.size[i] > 0 && program.lives(i, program.peak) ? 'yes' : ''));
  }
}

/* ---- layers ------------------------------------------------------------------------------- */

/* A tree of scopes, "block1/conv1" below "block1". Each node knows the bytes of all below it. */
function layerTree(program) {
  const root = {name: '', path: '', children: new Map(), values: [], depth: -1}, nodes = new Map();
  const nodeOf = (number) => {
    if (nodes.has(number))
      return nodes.get(number);
    const path = program.report.strings[number];
    let node = root;
    for (const name of path === '' ? ['(no layer)'] : path.split('/')) {
      if (!node.children.has(name))
        node.children.set(name, {name, path: node.depth < 0 ? name : `${node.path}/${name}`, children: new Map(),
          values: [], depth: node.depth + 1});
      node = node.children.get(name);
    }
    nodes.set(number, node);
    return node;
  };
  for (let i = 0; i < program.n; i++)
    nodeOf(program.layer[i]).values.push(i);
  sumLayer(program, root);
  return root;
}

/* Gives back all values below. */
function sumLayer(program, node) {
  const values = [...node.children.values()].reduce((all, child) => all.concat(sumLayer(program, child)), node.values);
  Object.assign(node, {atPeak: 0, parameters: 0, tensors: values.length});
  for (const i of values) {
    if (program.lives(i, program.peak))
      node.atPeak += program.size[i];
    if (program.roles[program.roleOf[i]] === 'parameter')
      node.parameters += program.size[i];
  }
  node.all = values;
  return values;
}

/* The most that the values of a node ever have together, when it is asked for. */
function mostOf(program, node) {
  if (node.most === undefined)
    node.most = node.all.length * 16 < program.nOps ? mostOfFew(program, node.all) : mostOfMany(program, node.all);
  return node.most;
}

/* Births and deaths in order. */
function mostOfFew(program, values) {
  const events = new Float64Array(2 * values.length), n = 2 * values.length;
  values.forEach((value, k) => {
    events[2 * k] = (2 * program.birth[value] + 1) * n + 2 * k;
    events[2 * k + 1] = 2 * program.end[value] * n + 2 * k + 1; /* before births there */
  });
  events.sort();
  let live = 0, most = 0;
  for (const event of events) {
    const k = event % n;
    live += k % 2 ? -program.size[values[k >> 1]] : program.size[values[k >> 1]];
    most = Math.max(most, live);
  }
  return most;
}

/* Op by op. */
function mostOfMany(program, values) {
  const change = new Float64Array(program.nOps + 1), {birth, end, size} = program;
  for (const i of values) {
    change[Math.min(birth[i], program.nOps)] += size[i];
    change[end[i]] -= size[i];
  }
  let live = 0, most = 0;
  for (let i = 0; i < program.nOps; i++) {
    live += change[i];
    most = Math.max(most, live);
  }
  return most;
}

class Layers {
  constructor(app) {
    this.app = app;
    this.order = {by: 1, down: true};
    this.open = new Set();
    this.columns = [{title: 'layer', key: (node) => node.name}, {title: 'at peak', number: true, key: (node) => node.atPeak},
      {title: 'share', number: true, key: (node) => node.atPeak}, {title: 'its own peak', number: true, key: (node) => mostOf(this.program, node)},
      {title: 'parameters', number: true, key: (node) => node.parameters},
      {title: 'tensors', number: true, key: (node) => node.tensors}];
  }

  draw() {
    const {program} = this.app;
    if (!program)
      return;
    if (this.program !== program) {
      this.program = program;
      this.root = layerTree(program);
    }
    const rows = [];
    this.list(this.root, rows);
    putTable(byId('layers'), headOf(this.columns, this.order, () => this.draw()), h('tbody', {}, ...rows));
  }

  list(node, rows) {
    const {by, down} = this.order, key = this.columns[by].key, sign = down ? -1 : 1;
    const children = [...node.children.values()].sort((a, b) => sign * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) ||
      (a.name < b.name ? -1 : 1));
    for (const child of children.slice(0, 500)) {
      rows.push(this.row(child));
      if (this.open.has(child.path))
        this.list(child, rows);
    }
    if (children.length > 500)
      rows.push(h('tr', {}, h('td', {colspan: 6}, `and ${fmtInt(children.length - 500)} more`)));
  }

  row(node) {
    const has = node.children.size > 0, opened = this.open.has(node.path), whole = this.program.peakBytes;
    const share = h('span', {class: 'share'});
    share.style.width = `${whole > 0 ? Math.min(100, 100 * node.atPeak / whole) : 0}%`;
    const name = h('th', {scope: 'row'}, has ? h('button', {type: 'button', class: 'link twist', 'aria-expanded': String(opened),
      'aria-label': `parts of ${node.name}`, onclick: () => this.turn(node)}, opened ? '\u25be' : '\u25b8') : h('span', {class: 'twist'}),
    h('button', {type: 'button', class: 'link', title: 'search its tensors', onclick: () => this.search(node.path)}, short(node.name)));
    name.style.paddingLeft = `${0.4 + 1.1 * node.depth}em`;
    return h('tr', {'data-path': node.path}, name,
    h('td', {class: 'number'}, bytesCell(node.atPeak)),
    h('td', {class: 'number shared'}, share, h('span', {}, fmtShare(node.atPeak, whole))),
    h('td', {class: 'number'}, bytesCell(mostOf(this.program, node))),
    h('td', {class: 'number'}, node.parameters ? bytesCell(node.parameters) : ''),
    h('td', {class: 'number'}, fmtInt(node.tensors)));
  }

  turn(node) {
    if (!this.open.delete(node.path))
      this.open.add(node.path);
    this.draw();
  }

  search(path) {
    byId('search').value = path === '(no layer)' ? '' : path;
    this.app.tensors.draw();
    byId('search').scrollIntoView({block: 'center'});
  }
}
