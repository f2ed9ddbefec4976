/* A headless Chromium, driven by its DevTools protocol through two pipes; no package is needed.
 * Everything that the page asks of a network, says on its console or throws is kept, so that a
 * test can demand that there was nothing. */
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

export class Browser {
  constructor(program) {
    this.profile = mkdtempSync(join(tmpdir(), 'stepwell-chromium-'));
    this.child = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--no-first-run', '--hide-scrollbars', '--disable-extensions', '--disable-background-networking',
      '--disable-component-update', '--renderer-process-limit=1', '--process-per-site', `--user-data-dir=${this.profile}`, '--remote-debugging-pipe', 'about:blank'],
    {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    this.waiting = new Map();
    this.next = 1;
    this.heard = [];
    this.rest = '';
    this.child.stdio[4].setEncoding('utf8');
    this.child.stdio[4].on('data', (text) => this.read(text));
    this.child.on('exit', () => {
      for (const {reject} of this.waiting.values())
        reject(new Error('the browser has ended'));
    });
  }

  read(text) {
    const parts = (this.rest + text).split('\0');
    this.rest = parts.pop();
    for (const part of parts) {
      const message = JSON.parse(part), wait = this.waiting.get(message.id);
      if (!message.id) {
        this.heard.push(message);
        for (const hear of this.hearers || [])
          hear(message);
      } else if (wait) {
        this.waiting.delete(message.id);
        if (message.error)
          wait.reject(new Error(`${wait.method}: ${message.error.message}`));
        else
          wait.resolve(message.result);
      }
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, {resolve, reject, method});
      this.child.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    });
  }

  async close() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    const late = setTimeout(() => this.child.kill('SIGKILL'), 10000);
    this.send('Browser.close').catch(() => 0); /* it removes its own temporary folders */
    await ended;
    clearTimeout(late);
    try {
      rmSync(this.profile, {recursive: true, force: true, maxRetries: 5});
    } catch { /* a process of it is still writing there */ }
  }

  /* A page without a network. */
  async page({width = 1280, height = 900} = {}) {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, sessionId, targetId);
    for (const domain of ['Page', 'Runtime', 'Network', 'Log'])
      await page.send(`${domain}.enable`);
    await page.send('Network.emulateNetworkConditions', {offline: true, latency: 0, downloadThroughput: 0, uploadThroughput: 0});
    await page.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
    return page;
  }
}

class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, {browser, sessionId, targetId});
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  /* Until the first picture is drawn; what is asked before it counts too. */
  async open(file, {drawn = 'document.body.dataset.opened', seconds = 60} = {}) {
    await this.send('Page.navigate', {url: pathToFileURL(file).href});
    const until = Date.now() + 1000 * seconds;
    for (;;) {
      const done = await this.evaluate(`document.readyState === 'complete' && Boolean(${drawn})`);
      if (done)
        return;
      if (Date.now() > until || this.complaints().length)
        throw new Error(`${file}: nothing was drawn; ${JSON.stringify(this.complaints())}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async evaluate(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true});
    if (exceptionDetails)
      throw new Error(`${expression}: ${exceptionDetails.exception?.description || exceptionDetails.text}`);
    return result.value;
  }

  /* Two frames later all that an act caused is drawn. */
  settle(ms = 25) {
    return this.evaluate(`new Promise((r) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => r())), ${ms}))`);
  }

  /* The middle of an element, or a place in it by shares of its size. */
  async place(selector, x = 0.5, y = 0.5) {
    const box = await this.evaluate(`(() => { const e = document.querySelector(${JSON.stringify(selector)});
      e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();
      return {x: b.x + b.width * ${x}, y: b.y + b.height * ${y}}; })()`);
    return box;
  }

  async mouse(type, at, more = {}) {
    await this.send('Input.dispatchMouseEvent', {type, ...at, button: 'none', ...more});
  }

  async hover(selector, x, y) {
    await this.mouse('mouseMoved', await this.place(selector, x, y));
    await this.settle();
  }

  async click(selector, x, y) {
    const at = await this.place(selector, x, y);
    await this.mouse('mouseMoved', at);
    await this.mouse('mousePressed', at, {button: 'left', buttons: 1, clickCount: 1});
    await this.mouse('mouseReleased', at, {button: 'left', buttons: 0, clickCount: 1});
    await this.settle();
  }

  async type(text) {
    for (const key of text) {
      const params = {key, windowsVirtualKeyCode: key.toUpperCase().charCodeAt(0)};
      await this.send('Input.dispatchKeyEvent', {type: 'keyDown', text: key, ...params});
      await this.send('Input.dispatchKeyEvent', {type: 'keyUp', ...params});
    }
    await this.settle();
  }

  text(selector) {
    return this.evaluate(`(document.querySelector(${JSON.stringify(selector)}) || {}).innerText`);
  }

  async shot(path, whole = false) {
    const {data} = await this.send('Page.captureScreenshot', {format: 'png', captureBeyondViewport: whole});
    writeFileSync(path, Buffer.from(data, 'base64'));
  }

  async pdf(path) {
    const {data} = await this.send('Page.printToPDF', {printBackground: false, preferCSSPageSize: true});
    const bytes = Buffer.from(data, 'base64');
    if (path)
      writeFileSync(path, bytes);
    return bytes;
  }

  /* Complaints about the page: errors, warnings, exceptions, requests that are not the file. */
  complaints() {
    return this.browser.heard.filter((m) => m.sessionId === this.sessionId).flatMap(({method, params}) => {
      if (method === 'Runtime.exceptionThrown')
        return [`exception: ${params.exceptionDetails.exception?.description || params.exceptionDetails.text}`];
      if (method === 'Runtime.consoleAPICalled')
        return [`console: ${params.args.map((a) => a.value).join(' ')}`];
      if (method === 'Log.entryAdded')
        return [`log: ${params.entry.text}`];
      if (method === 'Network.requestWillBeSent' && !params.request.url.startsWith('file://'))
        return [`request: ${params.request.url.slice(0, 200)}`];
      return [];
    });
  }

  requests() {
    return this.browser.heard.filter((m) => m.sessionId === this.sessionId && m.method === 'Network.requestWillBeSent')
      .map((m) => m.params.request.url);
  }
}
