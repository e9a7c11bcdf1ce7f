// The live page: it shows lanes, executions, flows, one of either, and what waits for people. What
// changes something is in waits.js.
//
// What must stay true:
// * Everything that comes from the API reaches the document as text, never as markup.
// * A view is a function of the data last read. `patch` makes the document look like it and touches
//   only what differs: scroll position, selection, focus and opened details survive every refresh.
// * Requests are bounded: one refresh at a time, at most two a second, none while the tab is hidden.
'use strict';

const PAGE_ROWS = 50;
const ROWS_MAX = 1000; // the most that the API hands out at once
const STEPS_MAX = 1000; // the most that a history holds
const ATTEMPTS_DRAWN_MAX = 20;
const REFRESH_GAP_MS = 500;
const POLL_MS = 3000;
const POLL_ACTIVE_MS = 1000; // steps and progress make no events, and someone is looking at them
const COUNTS_GAP_MS = 5000;
const STREAM_SILENCE_MS = 40_000; // the server writes a comment every 15 s
const STREAM_BACKOFF_MAX_MS = 15_000;
const GRAPH_NODES_MAX = 300; // more nodes are a table
const GRAPH_EDGES_MAX = 1000; // the most that the API hands out at once
const STATES = ['waiting', 'delayed', 'waiting_children', 'active', 'suspended', 'completed', 'failed', 'cancelled', 'expired', 'skipped'];
const FLOW_STATES = ['open', 'completed', 'failed', 'cancelled'];
// The names are those of the API, so that a shared link reads like a request.
const FILTERS = ['state', 'lane_id', 'execution_kind', 'tag', 'namespace'];
const FLOW_FILTERS = ['state', 'flow_kind', 'tag', 'namespace'];

// What was read last. Views draw from here and from nowhere else.
const data = {
  lanes: null, counts: null, list: null, history: null, payloads: new Map(), flows: null, flow: null, inbox: null,
  waiting: null, problem: null,
};
let route = { view: 'list', filters: {} };
let rowsWanted = PAGE_ROWS;
let zoom = null; // the attempt that fills the timeline; null shows the whole life
let scale = null; // how large a graph is drawn: 'fit', 'full', or null for what is still readable
let bucket = null; // the state of the members that are listed; null lists all
let skewMs = 0; // how far the browser's clock is behind the store's, which decides

// ---- Theme -------------------------------------------------------------------------------------

// Storage may be forbidden, as in some private windows; then a choice lasts as long as the page.
function stored(storage, key, value) {
  try {
    return value === undefined ? window[storage].getItem(key) : window[storage].setItem(key, value);
  } catch {
    return null;
  }
}

function applyTheme(theme) {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
}

function toggleTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const theme = (document.documentElement.dataset.theme ?? system) === 'dark' ? 'light' : 'dark';
  applyTheme(theme);
  stored('localStorage', 'ff-theme', theme);
}

applyTheme(stored('localStorage', 'ff-theme'));

// ---- Document ----------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    // The content security policy forbids style attributes but not the style object.
    if (name === 'style') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

const el = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);
const svg = (tag, props = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
const template = (name) => $(`${name}-template`).content.cloneNode(true);
const icon = (name) =>
  svg('svg', { class: 'icon', width: 14, height: 14, 'aria-hidden': 'true' }, svg('use', { href: `#icon-${name}` }));

const keyOf = (node) => node.dataset?.key;
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;

/** Makes `old` look like `fresh`, touching only what differs. Children with a key keep their node. */
function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (fresh.dataset.sign && fresh.dataset.sign === old.dataset.sign) return;
  patchAttributes(old, fresh);
  patchChildren(old, fresh);
}

function patchAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // What a person opened stays open.
    if (name !== 'style' && name !== 'open' && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
}

function patchChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const staying = new Set(wanted.map(keyOf));
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const next of wanted) {
    // Moving a node costs its focus and selection, so what leaves goes before what stays is placed.
    while (at && keyOf(at) && !staying.has(keyOf(at))) at = dropAndStep(at);
    const match = keyOf(next) ? keyed.get(keyOf(next)) : at && !keyOf(at) ? at : null;
    if (!match || !alike(match, next)) {
      old.insertBefore(next, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    patch(match, next);
  }
  while (at) at = dropAndStep(at);
}

function dropAndStep(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

let drawn = new Map(); // what is on the page with a sign: key to sign

/** Builds a node only when its sign, all that it shows, has changed: a thousand rows cost little. */
function signed(make, tag, key, sign, build) {
  const props = { 'data-key': key, 'data-sign': sign };
  if (drawn.get(key) === sign) return make(tag, props); // `patch` keeps the one on the page
  const [more, ...children] = build();
  return make(tag, { ...props, ...more }, ...children);
}

const show = (container, ...children) => patchChildren(container, el('div', {}, ...children));

// ---- Words and numbers -------------------------------------------------------------------------

const now = () => Date.now() + skewMs;
const whole = new Intl.NumberFormat('en');
const count = (n, word) => `${whole.format(n)} ${word}${n === 1 ? '' : 's'}`;
const words = (text) => text.replaceAll('_', ' ');
const shorten = (text, max) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  const pair = (big, unit, small, rest) => `${Math.floor(big)} ${unit}${small >= 1 ? ` ${Math.floor(small)} ${rest}` : ''}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return pair(s / 60, 'min', s % 60, 's');
  if (s < 86_400) return pair(s / 3600, 'h', (s / 60) % 60, 'min');
  return pair(s / 86_400, 'd', (s / 3600) % 24, 'h');
}

/** In one unit, rounded down: for ages, which need no more. */
function roughly(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

function relative(at) {
  const ms = now() - at;
  if (Math.abs(ms) < 1000) return 'now';
  return ms > 0 ? `${roughly(ms)} ago` : `in ${roughly(-ms)}`;
}

const clock = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit',
  fractionalSecondDigits: 3, timeZoneName: 'short',
});
const absolute = (at) => clock.format(at);
const when = (at) => el('time', { datetime: new Date(at).toISOString(), title: absolute(at) }, relative(at));

function bytes(n) {
  if (n < 1024) return count(n, 'byte');
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

// UUIDv7 begins with the time, so that neighbours share their beginning: the end tells them apart.
const shortId = (id) => `…${id.slice(-8)}`;
const executionHref = (id) => `#/executions/${encodeURIComponent(id)}`;

const flowHref = (id) => `#/flows/${encodeURIComponent(id)}`;

function hrefOf(path, names, filters) {
  const query = new URLSearchParams(names.filter((name) => filters[name]).map((name) => [name, filters[name]]));
  return `#/${path}${query.size ? `?${query}` : ''}`;
}

const listHref = (filters) => hrefOf('executions', FILTERS, filters);
const flowsHref = (filters) => hrefOf('flows', FLOW_FILTERS, filters);

const copyButton = (text, what) => el('button', {
  type: 'button', class: 'copy', 'data-copy': text, 'aria-label': `Copy ${what}`, title: `Copy ${what}`,
}, icon('copy'));
const stateWord = (state) => el('span', { class: `state is-${state}` }, el('i'), words(state));
const barOf = (percent, props) => el('span', { ...props, class: `bar ${props?.class ?? ''}` },
  el('i', { style: { width: `${percent}%` } }));

const isTerminal = (x) => !['waiting', 'delayed', 'waiting_children', 'active', 'suspended'].includes(x.public_state);
/** Until when it waits. The snapshot says it only inside its sentence. */
const wakeAt = (x) => Number(/until (\d+)/.exec(x.blocking_detail ?? '')?.[1] ?? 0);
const missedAt = (x) => Number(/nobody came by (\d+)/.exec(x.blocking_detail ?? '')?.[1] ?? 0);

// ---- API ---------------------------------------------------------------------------------------

/** A refusal, with what the problem document says. */
class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `The server answered ${status}.`);
    Object.assign(this, { status, code: body.code ?? `status_${status}`, hint: body.hint });
  }
}

const unreachable = () => new Problem(0, {
  code: 'unreachable', detail: 'The server does not answer.', hint: 'Is ff serve running? This page keeps trying.',
});

// Numbers that JavaScript cannot hold, like 64-bit ids in a payload, are kept as they were written.
const exactly = (key, value, context) =>
  typeof value === 'number' && context?.source && JSON.rawJSON && String(value) !== context.source
    ? JSON.rawJSON(context.source) : value;

function authorization() {
  const token = stored('sessionStorage', 'ff-token') ?? authorization.token;
  return token ? { Authorization: `Bearer ${token}` } : {};
}

const get = (path, signal) => request(path, { signal });
const post = (path, body) => request(path, {
  method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
});

async function request(path, { signal, headers, ...more }) {
  let response;
  let text;
  try {
    response = await fetch(path, { ...more, signal, cache: 'no-store', headers: { ...headers, ...authorization() } });
    text = await response.text();
  } catch (error) {
    throw signal?.aborted ? error : unreachable();
  }
  if (response.status === 401) askForToken();
  let body = null;
  try {
    body = JSON.parse(text, exactly);
  } catch {
    // Something between here and the server may answer in its own words; told below.
  }
  if (!response.ok || !body) throw new Problem(response.status, body ?? { detail: 'The answer is not JSON.' });
  return body;
}

function askForToken() {
  if ($('token-dialog').open || askForToken.declined) return;
  $('token-refused').textContent = authorization().Authorization ? 'That token was refused.' : '';
  $('token-dialog').showModal();
}

function keepToken(event) {
  event.preventDefault();
  authorization.token = $('token').value.trim();
  stored('sessionStorage', 'ff-token', authorization.token);
  $('token').value = '';
  $('token-dialog').close();
  restart();
}

// ---- Refreshing --------------------------------------------------------------------------------

const refresher = { timer: 0, poll: 0, abort: null, again: false, notBefore: 0 };

/** Reads again soon. However often it is called, one refresh runs at a time, two a second. */
function refreshSoon() {
  if (document.hidden || refresher.timer) return;
  if (refresher.abort) refresher.again = true;
  else refresher.timer = setTimeout(refresh, Math.max(0, refresher.notBefore - performance.now()));
}

function stopRefreshing() {
  clearTimeout(refresher.timer);
  clearTimeout(refresher.poll);
  refresher.abort?.abort();
  Object.assign(refresher, { timer: 0, abort: null, again: false, notBefore: 0 });
}

async function refresh() {
  const abort = new AbortController();
  const began = performance.now();
  Object.assign(refresher, { timer: 0, abort, again: false });
  clearTimeout(refresher.poll);
  const [problem] = await Promise.all([
    VIEWS[route.view].load(abort.signal).then(() => null, (error) => error), loadWaiting(abort.signal)]);
  // Another route took over, and what was read belongs to the one before.
  if (abort.signal.aborted) return;
  data.problem = problem;
  // A store that answers slowly is asked less often.
  const took = performance.now() - began;
  Object.assign(refresher, { abort: null, notBefore: performance.now() + Math.max(REFRESH_GAP_MS, 4 * took) });
  // Without a token nothing is asked again; the token, when it comes, begins anew.
  if (problem?.status !== 401) refresher.poll = setTimeout(refreshSoon, pollDelay());
  if (refresher.again && problem?.status !== 401) refreshSoon();
  render();
}

// Creations, claims, steps and progress make no events, so the page polls also while it is live.
function pollDelay() {
  const active = route.view === 'execution' ? data.history?.snapshot.public_state === 'active'
    : route.view === 'flow' && data.flow?.flow.state === 'open' && data.flow.members.length <= GRAPH_NODES_MAX;
  return active ? POLL_ACTIVE_MS : POLL_MS;
}

/** Begins anew: on a new route, with a new token, when the tab is looked at again. */
function restart() {
  askForToken.declined = false;
  data.problem = null;
  stopRefreshing();
  closeStream();
  if (document.hidden) return;
  refreshSoon();
  openStream();
  readClock();
}

async function readClock() {
  // When it fails, the refresh that runs beside it tells what is wrong.
  const info = await get('/v1/info').catch(() => null);
  if (!info) return;
  skewMs = info.server_time - Date.now();
  $('about').textContent = `${info.version} · ${info.backend}`;
}

// ---- Stream ------------------------------------------------------------------------------------

const stream = { abort: null, timer: 0, watchdog: 0, open: false, failures: 0 };

function closeStream() {
  stream.abort?.abort();
  clearTimeout(stream.timer);
  clearTimeout(stream.watchdog);
  Object.assign(stream, { abort: null, open: false });
}

async function openStream() {
  if (data.problem?.status === 401) return;
  const abort = new AbortController();
  stream.abort = abort;
  // Whatever it ends with, the answer is to try again.
  await follow(abort).catch(() => null);
  if (stream.abort !== abort) return; // closed on purpose
  Object.assign(stream, { open: false, failures: stream.failures + 1 });
  showLive();
  const backoff = Math.min(STREAM_BACKOFF_MAX_MS, 500 * 2 ** stream.failures);
  // Spread out, so that all pages do not return in the same moment after a restart of the server.
  stream.timer = setTimeout(openStream, backoff * (0.5 + Math.random() / 2));
}

async function follow(abort) {
  // fetch and not EventSource, which cannot send the Authorization header. No Last-Event-ID: after
  // a gap everything shown is read again anyway.
  const response = await fetch(`/v1/events/stream?${streamFilter()}`, {
    signal: abort.signal, cache: 'no-store', headers: { Accept: 'text/event-stream', ...authorization() },
  });
  if (!response.ok) return;
  if (stream.failures) refreshSoon();
  Object.assign(stream, { open: true, failures: 0 });
  showLive();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    clearTimeout(stream.watchdog);
    stream.watchdog = setTimeout(() => abort.abort(), STREAM_SILENCE_MS);
    const { value, done } = await reader.read();
    if (done) return;
    // An event only says that something changed; not parsing it keeps a busy feed cheap.
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    if (lines.some((line) => line.startsWith('data:'))) refreshSoon();
  }
}

function streamFilter() {
  if (route.view === 'execution') return new URLSearchParams({ execution_id: route.id });
  if (route.view === 'flow') return new URLSearchParams({ flow_id: route.id });
  const given = ['lane_id', 'namespace', 'tag'].filter((name) => route.filters[name]);
  return new URLSearchParams(given.map((name) => [name, route.filters[name]]));
}

const LIVE_TITLES = {
  live: 'Changes appear as they happen', reconnecting: 'The stream of events broke; trying again',
  polling: 'No stream of events; reading every 3 s instead', locked: 'The server asks for a token',
  offline: 'The server does not answer; trying again',
};

function showLive() {
  const status = data.problem?.code === 'unreachable' ? 'offline' : data.problem?.status === 401 ? 'locked'
    : stream.open ? 'live' : stream.failures > 2 ? 'polling' : stream.failures ? 'reconnecting' : null;
  // A stream that is being opened for another route is no news.
  if (!status || $('live').dataset.status === status) return;
  $('live').dataset.status = status;
  $('live').title = LIVE_TITLES[status];
  $('live').lastElementChild.textContent = status;
}

// ---- Lanes and the list ------------------------------------------------------------------------

async function loadList(signal) {
  const of = listHref(route.filters);
  const query = new URLSearchParams({ ...route.filters, limit: rowsWanted });
  // Who has scrolled down reads: the window stays where it is, and only its rows change.
  const held = data.list?.of === of && data.list.executions.length > 0 && $('rows').getBoundingClientRect().top < 0;
  if (held) query.set('created_to', data.list.executions[0].created_at + 1);
  const loadRows = async () => { data.list = { ...await get(`/v1/executions?${query}`, signal), held, of }; };
  await Promise.all([loadRows(), loadLanes(signal), loadCounts(signal)]);
}

async function loadLanes(signal) {
  const { lanes } = await get('/v1/lanes', signal);
  // An age goes on growing between two answers, so it is kept as a time.
  data.lanes = lanes.map((lane) => ({ ...lane, since: lane.waiting ? now() - lane.oldest_waiting_ms : null }));
}

// Counting looks at every execution, so the longer it takes the rarer it is done.
async function loadCounts(signal) {
  const began = performance.now();
  if (began < (loadCounts.notBefore ?? 0)) return;
  data.counts = (await get('/v1/counts', signal)).counts;
  loadCounts.notBefore = performance.now() + Math.max(COUNTS_GAP_MS, 50 * (performance.now() - began));
}

function countOf(state, lane) {
  const fits = (c) => (!state || c.state === state) && (!lane || c.lane_id === lane);
  return (data.counts ?? []).filter(fits).reduce((sum, c) => sum + c.count, 0);
}

/** Draws the list; answers whether the problem, if there is one, stands in its place. */
function renderList() {
  document.title = 'Executions · FlowFabric';
  renderLanes();
  renderStates();
  renderFilters();
  const list = data.list?.of === listHref(route.filters) ? data.list : null;
  const instead = isRefused() || (!list && data.problem);
  const rows = instead ? [] : (list?.executions ?? []);
  $('newest').hidden = !list?.held;
  $('table').classList.toggle('is-empty', rows.length === 0);
  show($('rows'), rows.map(executionRow));
  show($('list-foot'), instead ? problemCard(data.problem) : listFoot(list));
  return instead;
}

function renderLanes() {
  if (!data.lanes) return;
  const deepest = Math.max(1, ...data.lanes.map((lane) => lane.waiting));
  const none = el('p', { class: 'muted lane-none' }, 'A lane exists from the first execution that names it.');
  show($('lanes'), data.lanes.length ? data.lanes.map((lane) => laneCard(lane, deepest)) : none);
}

function laneCard(lane, deepest) {
  const chosen = route.filters.lane_id === lane.lane_id;
  const href = listHref({ ...route.filters, lane_id: chosen ? '' : lane.lane_id });
  const active = countOf('active', lane.lane_id);
  return el('a', { class: 'lane card', href, 'data-key': lane.lane_id, 'aria-current': chosen ? 'true' : null },
    el('span', { class: 'lane-name clip', title: lane.lane_id }, lane.lane_id),
    el('span', { class: 'lane-depth' },
      el('b', {}, whole.format(lane.waiting) + (lane.waiting_capped ? '+' : '')), ' waiting'),
    // A single one must be seen beside thousands.
    barOf(lane.waiting ? Math.max(2, (100 * lane.waiting) / deepest) : 0),
    el('span', { class: 'lane-age' }, lane.since === null ? 'nothing waits' : `next waits ${roughly(now() - lane.since)}`),
    el('span', { class: 'lane-active' }, active ? `${whole.format(active)} active` : ''));
}

function renderStates() {
  // Counts know lanes and states only; beside another filter they would count something else.
  const counted = data.counts && ['execution_kind', 'tag', 'namespace'].every((name) => !route.filters[name]);
  const chip = (state) => el('a', {
    'data-key': state || 'all', class: `chip is-${state || 'any'}`, href: listHref({ ...route.filters, state }),
    'aria-current': (route.filters.state ?? '') === state ? 'true' : null,
  }, state ? el('i') : null, words(state) || 'all',
  counted ? el('span', {}, whole.format(countOf(state, route.filters.lane_id))) : null);
  show($('states'), ['', ...STATES].map(chip));
}

function renderFilters() {
  const form = $('filters').elements;
  const lanes = new Set([...(data.lanes ?? []).map((lane) => lane.lane_id), route.filters.lane_id ?? '']);
  lanes.delete('');
  const option = (value) => el('option', { value, 'data-key': value || 'any' }, value || 'any');
  show(form.lane_id, ['', ...lanes].map(option));
  const kinds = new Set((data.list?.executions ?? []).map((x) => x.execution_kind));
  show($('kinds'), [...kinds].sort().map(option));
  for (const name of FILTERS) {
    if (form[name] && form[name] !== document.activeElement) form[name].value = route.filters[name] ?? '';
  }
  $('clear').hidden = FILTERS.every((name) => !route.filters[name]);
}

function executionRow(x) {
  const took = x.started_at ? duration((x.completed_at ?? now()) - x.started_at) : '–';
  const sign = [x.last_mutation_at, x.public_state, took, relative(x.created_at), relative(wakeAt(x)),
    x.progress?.at].join();
  return signed(el, 'tr', x.execution_id, sign, () => executionCells(x, took));
}

function executionCells(x, took) {
  const href = executionHref(x.execution_id);
  const tags = Object.entries(x.tags).map(([key, value]) => `${key}:${value}`).join('  ');
  return [{ 'data-href': href, class: `is-${x.public_state}` },
    el('td', { class: 'c-state' }, stateWord(x.public_state)),
    el('td', { class: 'c-what' },
      el('a', { class: 'kind', href, title: x.execution_kind }, x.execution_kind),
      el('span', { class: 'under' },
        el('code', { title: x.execution_id }, shortId(x.execution_id)), copyButton(x.execution_id, 'the id'),
        x.flow_id ? el('a', { class: 'of-flow', href: flowHref(x.flow_id), title: 'The flow it belongs to' }, x.node ?? 'in a flow') : null,
        el('span', { class: 'tags-line', title: tags }, tags))),
    el('td', { class: 'c-lane', title: x.lane_id }, x.lane_id),
    el('td', { class: 'c-note' }, standing(x)),
    el('td', { class: 'c-attempts' }, x.counts.attempts),
    el('td', { class: 'c-took' }, took),
    el('td', { class: 'c-created' }, when(x.created_at))];
}

/** Why it ended. The engine gives its reasons as codes. */
const because = (x) => (x.cancelled_by === 'engine' || x.public_state === 'skipped' ? words : String)(x.ended_because ?? '');

/** What there is to say about where it stands, in one line. */
function standing(x) {
  const line = (title, ...content) => el('span', { class: 'clip', title }, content.length ? content.flat() : title);
  const failure = x.failure ? `${x.failure.category}: ${x.failure.reason}` : '';
  if (isTerminal(x)) return line(failure || because(x));
  if (x.public_state === 'active') {
    return x.progress ? progressLine(x.progress) : line(`leased by ${x.current_lease?.worker.instance}`);
  }
  if (x.public_state === 'suspended') {
    const time = wakeAt(x) ? [' · times out ', when(wakeAt(x))] : missedAt(x) ? [' · nobody came by ', when(missedAt(x))] : '';
    return line(words(x.blocking_reason), words(x.blocking_reason), time);
  }
  if (x.public_state !== 'delayed' || !wakeAt(x)) return line(x.blocking_detail ?? words(x.blocking_reason));
  const verb = { waiting_for_retry_backoff: 'retries ', waiting_for_reclaim_backoff: 'taken over ' }[x.blocking_reason] ?? 'goes on ';
  return line(failure, verb, when(wakeAt(x)), failure ? ` · ${failure}` : '');
}

const percentOf = ({ percent }) => (Number.isFinite(percent) ? `${percent}%` : '');

function progressLine(progress) {
  const text = [percentOf(progress), progress.message].filter(Boolean).join(' · ');
  return el('span', { class: 'progress-line', title: text }, progressBar(progress), el('span', { class: 'clip' }, text));
}

const progressBar = (progress) => percentOf(progress) && barOf(progress.percent, {
  role: 'progressbar', 'aria-valuenow': progress.percent, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-label': 'progress',
});

function listFoot(list) {
  if (!list) return el('p', { class: 'muted center' }, 'Loading…');
  const shown = list.executions.length;
  if (shown === 0) return template($('clear').hidden ? 'first' : 'nothing');
  return listEnd(shown, list.next, 'execution');
}

function listEnd(shown, next, what, which = 'newest') {
  const note = (text) => el('p', { class: 'muted center' }, text);
  if (!next) return note(`${count(shown, what)}, and that is all.`);
  if (rowsWanted < ROWS_MAX) return el('button', { type: 'button', class: 'more', 'data-do': 'more' }, 'Load more');
  return note(`The ${which} ${whole.format(ROWS_MAX)} are shown.${which === 'newest' ? ' Narrow the filters to find others.' : ''}`);
}

// What was asked for is wrong: showing the answer to an earlier question would mislead.
const isRefused = () => data.problem?.status >= 400 && data.problem.status < 500;

const problemCard = (problem) => el('div', { class: 'problem', role: 'alert' },
  el('code', {}, problem.code ?? problem.name), el('p', {}, problem.message),
  problem.hint ? el('p', { class: 'muted' }, problem.hint) : null,
  problem.status === 401 ? el('button', { type: 'button', 'data-do': 'token' }, 'Enter the token') : null);

// ---- One execution -----------------------------------------------------------------------------

async function loadExecution(signal) {
  const { id } = route;
  const path = `/v1/executions/${encodeURIComponent(id)}`;
  const history = await get(`${path}/history`, signal);
  data.history = { ...history, waits: await loadWaits(history, signal), of: id };
  const x = data.history.snapshot;
  await loadPayload(inputKey(x), `${path}/input`, signal);
  if (x.public_state === 'completed') await loadPayload(resultKey(x), `${path}/result`, signal);
}

const inputKey = (x) => `input ${x.execution_id}`;
// A replay may end with another result.
const resultKey = (x) => `result ${x.execution_id} ${x.completed_at}`;

async function loadPayload(key, path, signal) {
  if (data.payloads.has(key)) return;
  const body = await get(path, signal).catch((problem) => {
    // What is refused is told in its place and does not hide the rest.
    if (problem.status >= 400 && problem.status < 500) return { problem };
    throw problem;
  });
  if (data.payloads.size >= 20) data.payloads.clear();
  data.payloads.set(key, body);
}

/** Draws one execution; answers whether the problem, if there is one, stands in its place. */
function renderExecution() {
  const view = $('execution-view');
  const history = data.history?.of === route.id ? data.history : null;
  const back = backTo(history?.snapshot.flow_id);
  if (!history || isRefused()) {
    const what = data.problem ? problemCard(data.problem) : el('p', { class: 'muted' }, 'Loading…');
    show(view, back, el('div', { class: 'card pad waiting-room' }, what));
    return true;
  }
  const x = history.snapshot;
  document.title = `${x.execution_kind} · ${x.public_state} · FlowFabric`;
  const drawing = timeline(history);
  show(view, back, headCard(x), waitSection(history),
    section('Timeline', null, zoomButtons(history), drawing.node, template('legend')),
    el('div', { class: 'columns', 'data-key': 'columns' },
      el('div', {}, stepsSection(history, drawing), signalsSection(history), attemptsSection(history), eventsSection(history)),
      el('div', {}, payloadSection('Input', 'input', inputKey(x)), resultSection(x), lastWaitSection(history))));
  return false;
}

/** Where one came from: the inbox or a flow, if that was looked at last, or the list. */
function backTo(flow) {
  if (fromInbox) return el('a', { class: 'back', href: '#/inbox' }, icon('back'), 'Waiting for people');
  if (flow && flow === lastFlow) return el('a', { class: 'back', href: flowHref(flow) }, icon('back'), 'Flow');
  return el('a', { class: 'back', href: places.list.href }, icon('back'), 'Executions');
}

const section = (title, size, ...children) => el('section', { class: 'card', 'data-key': title },
  el('h2', { class: 'card-title' }, title, size ? el('span', { class: 'size' }, whole.format(size)) : null), ...children);
const none = (text) => el('p', { class: 'none' }, text);

function headCard(x) {
  return el('section', { class: `card pad is-${x.public_state}`, 'data-key': 'head' },
    el('div', { class: 'head-line' }, el('h1', {}, x.execution_kind), stateWord(x.public_state)),
    el('div', { class: 'under' },
      el('code', { class: 'whole-id' }, x.execution_id), copyButton(x.execution_id, 'the id')),
    el('dl', { class: 'facts' }, facts(x)),
    tagList(x.tags), flowPanel(x), progressPanel(x.progress), leasePanel(x.current_lease), troublePanels(x));
}

const fact = (name, value, more) =>
  el('div', {}, el('dt', {}, name), el('dd', {}, value, more ? el('small', {}, ` ${more}`) : null));

function facts(x) {
  const { attempts, retries, reclaims, replays } = x.counts;
  const extra = [[retries, 'retry', 'retries'], [reclaims, 'reclaim', 'reclaims'], [replays, 'replay', 'replays']]
    .filter(([n]) => n > 0).map(([n, one, many]) => `${n} ${n === 1 ? one : many}`).join(', ');
  const took = x.started_at && x.completed_at ? `took ${duration(x.completed_at - x.started_at)}` : '';
  return [
    fact('Lane', el('a', { href: listHref({ lane_id: x.lane_id }) }, x.lane_id)),
    fact('Namespace', x.namespace),
    fact('Priority', x.priority),
    fact('Attempts', attempts, extra),
    fact('Created', when(x.created_at), x.creator_identity ? `by ${x.creator_identity}` : ''),
    fact('Started', x.started_at ? when(x.started_at) : '–'),
    x.current_lease ? fact('Running for', duration(now() - x.started_at))
      : fact('Ended', x.completed_at ? when(x.completed_at) : '–', took),
    fact('Deadline', x.deadline_at ? when(x.deadline_at) : 'none'),
  ];
}

function tagList(tags, href = listHref, what = 'Executions') {
  const tag = ([key, value]) => el('a', { class: 'tag', href: href({ tag: `${key}:${value}` }), title: `${what} with this tag` },
    el('span', {}, key), shorten(value, 60));
  return Object.keys(tags).length ? el('div', { class: 'tags' }, Object.entries(tags).map(tag)) : null;
}

const panel = (title, tone, text, more) => el('div', { class: `panel ${tone}`, 'data-key': title },
  el('b', {}, title), el('span', { class: 'grow' }, text), more);

function flowPanel(x) {
  if (!x.flow_id) return null;
  const link = el('a', { class: 'to-flow', href: flowHref(x.flow_id) }, el('code', {}, x.flow_id));
  return panel('Flow', '', x.node ? [el('b', { class: 'as' }, x.node), ' in ', link] : link);
}

function progressPanel(progress) {
  if (!progress) return null;
  const text = [percentOf(progress), ` ${progress.message ?? ''}`, el('small', {}, ' ', when(progress.at))];
  return panel('Progress', '', text, progressBar(progress));
}

function leasePanel(lease) {
  if (!lease) return null;
  const left = Math.max(0, lease.expires_at - now());
  const share = Math.min(100, (100 * left) / Math.max(1, lease.expires_at - lease.last_heartbeat_at));
  const text = ['held by ', el('code', {}, lease.worker.instance), el('small', {}, ` of ${lease.worker.id}, renewed `,
    when(lease.last_heartbeat_at), ', ends ', when(lease.expires_at))];
  return panel('Lease', '', text, barOf(share, { title: `${duration(left)} left` }));
}

/** Why it waits, why it ended, what its last attempt failed with. */
function troublePanels(x) {
  const trouble = (title, tone, text) => panel(title, `trouble is-${tone}`, text);
  const panels = [];
  // What a suspension waits for is told in a place of its own.
  if (x.blocking_reason !== 'none' && x.public_state !== 'suspended') {
    const what = words(x.blocking_reason).replace(/^waiting /, '');
    const wakes = x.public_state === 'delayed' && wakeAt(x);
    const text = wakes ? [`${what}, goes on `, when(wakeAt(x))] : x.blocking_detail ?? what;
    panels.push(trouble('Waits', x.public_state, text));
  }
  const why = because(x);
  if (x.public_state === 'cancelled') panels.push(trouble('Cancelled', 'cancelled', `by ${words(x.cancelled_by)}: ${why}`));
  if (x.public_state === 'expired') panels.push(trouble('Expired', 'expired', why));
  if (x.public_state === 'skipped') panels.push(trouble('Skipped', 'skipped', why));
  const title = isTerminal(x) ? 'Failed' : 'Last failure';
  if (x.failure) panels.push(trouble(title, 'failed', [el('code', {}, x.failure.category), ` ${x.failure.reason}`]));
  return panels;
}

function stepsSection({ steps, attempts }, drawing) {
  if (!steps.length) return section('Steps', 0, none('No step was recorded. A step runs once; its result is remembered over retries.'));
  return section('Steps', steps.length,
    el('div', { class: 'lines', 'data-key': 'lines' }, steps.map((step) => stepLine(step, drawing, attempts.length > 1))),
    steps.length >= STEPS_MAX ? none(`The first ${whole.format(STEPS_MAX)} are shown.`) : null);
}

function stepLine(step, { spans, range }, several) {
  const key = `step-${step.number}`;
  const { from, to } = spans.get(step.number) ?? { from: step.at - step.ran_ms, to: step.at };
  const took = step.kind === 'run' || to > from ? duration(to - from) : '';
  const share = (t) => Math.round(Math.min(100, Math.max(0, (100 * (t - range.from)) / (range.to - range.from))));
  const seen = to >= range.from && from <= range.to;
  const place = seen ? { left: `${share(from)}%`, width: `${share(to) - share(from)}%` } : { display: 'none' };
  // Filled when it is opened; a thousand closed ones cost nothing.
  const open = $(key)?.open;
  return signed(el, 'details', key, [route.id, took, place.left, place.width, several, open].join(), () => [
    { id: key, class: `line step kind-${step.kind}${step.outcome === 'failed' ? ' is-failed' : ''}` },
    el('summary', {},
      el('span', { class: 'number' }, step.number),
      el('span', { class: 'name clip', title: `${step.name}\n${absolute(step.at)}` }, step.name,
        step.kind === 'run' || step.kind === step.name ? null : el('em', {}, step.kind === 'wait' && !isQuestion(step) ? 'answer' : step.kind),
        several ? el('small', {}, `attempt ${step.attempt_index}`) : null),
      el('span', { class: 'track', 'aria-hidden': 'true' }, el('i', { style: place })),
      el('span', { class: 'took' }, took),
      el('span', { class: 'preview clip' }, preview(step, 120))),
    open ? payloadBody(step, 'result', `${key} ${route.id}`) : null]);
}

function attemptsSection({ attempts }) {
  const line = (a) => el('div', { class: `line attempt ${toneOf(a)}`, 'data-key': a.index },
    el('span', { class: 'number' }, a.index),
    el('span', { class: 'name' }, a.kind, ' ', el('span', { class: 'outcome' }, outcomeOf(a))),
    el('span', { class: 'took' }, duration((a.ended_at ?? now()) - a.started_at)),
    el('span', { class: 'at' }, when(a.started_at)),
    el('span', { class: 'text' }, `by ${a.worker.instance} of ${a.worker.id}`,
      a.failure ? [el('br'), el('code', {}, a.failure.category), ` ${a.failure.reason}`] : null));
  return section('Attempts', attempts.length,
    attempts.length ? el('div', { class: 'lines' }, attempts.map(line)) : none('No worker has claimed it yet.'));
}

function eventsSection({ events, more }) {
  const line = (event) => el('div', { class: `line event ${toneOf(event)}`, 'data-key': event.cursor },
    el('i', { class: 'diamond' }), el('span', { class: 'name' }, words(event.event)),
    el('span', { class: 'text' }, describe(event)), el('span', { class: 'at' }, when(event.at)));
  return section('Events', events.length,
    events.length ? el('div', { class: 'lines' }, events.map(line))
      : none('Nothing has happened that makes an event: no failure, no lost lease, no ending.'),
    more ? none('There is more history than is shown here.') : null);
}

const TONES = {
  success: 'completed', failed: 'failed', cancelled: 'cancelled', expired: 'expired', skipped: 'skipped',
  ended_success: 'completed', ended_failure: 'failed', ended_cancelled: 'cancelled',
  interrupted_reclaimed: 'expired', attempt_failed: 'failed', lease_expired: 'expired', lease_revoked: 'expired',
  under_way: 'active', paused: 'delayed', held: 'delayed', suspended: 'suspended', escalated: 'suspended',
  signal: 'suspended', resumed: 'active',
};

// Without a lease nobody works on it: it waits, sleeps, or was given back.
const restingWord = (x) => (x.public_state === 'suspended' ? 'suspended' : 'paused');
const wordOf = (attempt) =>
  attempt.outcome ?? (data.history.snapshot.current_lease ? 'under_way' : restingWord(data.history.snapshot));
const outcomeOf = (attempt) => words(wordOf(attempt));

/** The colour of an attempt or an event. Only a completion is coloured by how it ended. */
function toneOf(thing) {
  const word = thing.event === 'completion' || !thing.event ? wordOf(thing) : thing.event;
  return `is-${TONES[word] ?? 'waiting'}`;
}

function describe(event) {
  const worker = event.worker ? `${event.worker.instance} of ${event.worker.id}` : '';
  switch (event.event) {
    case 'completion': return [event.outcome, event.reason].filter(Boolean).join(': ');
    case 'attempt_failed':
      return `attempt ${event.attempt_index}: ${event.failure.reason} · next after ${duration(event.retry_at - event.at)}`;
    case 'lease_expired':
      return `attempt ${event.attempt_index}: ${worker} was not heard of in time${event.retry_at ? ` · next after ${duration(event.retry_at - event.at)}` : ''}`;
    case 'lease_revoked': return `attempt ${event.attempt_index}: taken from ${worker}: ${event.reason}`;
    case 'lease_reclaimed': return `attempt ${event.attempt_index}: taken over by ${worker}`;
    case 'priority_changed': return `from ${event.from} to ${event.to}`;
    case 'suspended': return `attempt ${event.attempt_index}: ${words(event.reason)}`;
    case 'signal':
      return `${event.signal_name}${event.source_identity ? ` from ${event.source_identity}` : ''}: ${effectWord(event.effect)}`;
    case 'resumed': return event.reason || 'without a signal';
    case 'escalated': return 'nobody came in time: an operator is asked';
    case 'replayed': return `after ${event.outcome}: ${event.reason}`;
    default: return event.reason ?? '';
  }
}

// ---- Payloads ----------------------------------------------------------------------------------

function payloadSection(title, name, key) {
  const body = data.payloads.get(key);
  return section(title, 0, body ? payloadBody(body, name, key) : none('Loading…'));
}

function resultSection(x) {
  if (x.public_state === 'completed') return payloadSection('Result', 'result', resultKey(x));
  return section('Result', 0, none(isTerminal(x) ? 'It ended without one.' : 'Not yet.'));
}

function payloadBody(body, name, key) {
  // It may be large and never changes, so the key says it all.
  return signed(el, 'div', key, key, () => [{ class: 'payload' }, body.problem ? problemCard(body.problem)
    : name in body ? prettyJson(body[name])
      : `${name}_base64` in body ? binary(body[`${name}_base64`], body.encoding) : none('None.')]);
}

function preview(step, max) {
  if (step.outcome === 'failed') return shorten(`failed: ${step.result?.message ?? ''}`, max);
  if (['sleep', 'now'].includes(step.kind) && Number.isSafeInteger(step.result)) return absolute(step.result);
  if (step.kind === 'wait') return shorten(waitPreview(step), max);
  if ('result' in step) return shorten(JSON.stringify(step.result), max);
  return 'result_base64' in step ? `${bytes(base64Size(step.result_base64))} binary` : '';
}

const prettyJson = (value) => jsonBlock(JSON.stringify(value, null, 2));

function jsonBlock(text) {
  // Colouring a megabyte would cost more than it shows.
  const content = text.length > 50_000 ? [text] : [...colored(text)];
  return el('div', { class: 'json' }, copyButton('', 'the JSON'), el('pre', { tabindex: 0 }, content));
}

function* colored(text) {
  const token = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;
  let at = 0;
  for (const { 0: all, 1: string, 2: colon, index } of text.matchAll(token)) {
    yield text.slice(at, index);
    yield el('span', { class: colon ? 'j-key' : string ? 'j-string' : 'j-value' }, string ?? all);
    if (colon) yield colon;
    at = index + all.length;
  }
  yield text.slice(at);
}

const base64Size = (text) => Math.floor((text.replace(/=+$/, '').length * 3) / 4);

function binary(base64, encoding) {
  const start = atob(base64.slice(0, 64));
  const hex = [...start].map((c) => c.charCodeAt(0).toString(16).padStart(2, '0')).join(' ');
  const size = base64Size(base64);
  return el('div', { class: 'binary' },
    el('p', {}, el('b', {}, bytes(size)), encoding ? ` of ${encoding}` : ' without an encoding'),
    el('code', {}, hex + (size > start.length ? ' …' : '')));
}

// ---- Timeline ----------------------------------------------------------------------------------

const PAD = 14;
const STEP_HEIGHT = 18;
const TICKS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5,
  36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 31_536e6];

/** The life of an execution to scale: a row for each attempt, with what it waited for before it. */
function timeline(history) {
  const rows = timelineRows(history);
  const range = timelineRange(history, rows);
  const width = Math.max(240, $('execution-view').clientWidth - 2);
  const x = (t) => PAD + ((t - range.from) / (range.to - range.from)) * (width - 2 * PAD);
  const events = history.events.filter((event) => event.at >= range.from && event.at <= range.to);
  const drawn = [];
  let y = events.length ? 52 : 34;
  for (const row of rows.filter((each) => zoom === null || each.index === zoom)) {
    drawn.push(drawRow(row, { x, y, range, width }));
    y += 30 + row.depth * STEP_HEIGHT;
  }
  const spoken = `${count(history.attempts.length, 'attempt')} and ${count(history.steps.length, 'step')}, as listed below`;
  const node = svg('svg', { class: 'timeline', 'data-key': 'timeline', width, height: y + 4, role: 'img', 'aria-label': spoken },
    drawAxis(range, x, width, y), events.map((event) => drawEvent(event, x, y)), drawn,
    isTerminal(history.snapshot) || now() > range.to + 1 ? null
      : svg('line', { class: 'now', x1: x(now()), x2: x(now()), y1: 24, y2: y }));
  const spans = new Map(rows.flatMap((row) => row.steps.map((span) => [span.step.number, span])));
  return { node, spans, range };
}

function timelineRows(history) {
  const { snapshot: x, attempts, steps, events } = history;
  let free = x.created_at; // since when nobody has worked on it
  const rows = attempts.map((attempt, i) => {
    const own = steps.filter((step) => step.attempt_index === attempt.index);
    const waits = waitsBetween(attempts[i - 1], free, attempt.started_at, events);
    const paused = !attempt.outcome && !x.current_lease;
    const suspended = paused && x.public_state === 'suspended';
    const rests = own.some(isQuestion) ? [] : restsOf(history, attempt);
    const idle = Math.max(own.at(-1)?.at ?? x.last_mutation_at, ...rests.map((rest) => rest.to));
    const worked = attempt.ended_at ?? (paused && !suspended ? idle : now());
    const spans = stepSpans(own, attempt.started_at, paused ? Math.max(now(), wakeAt(x)) : worked, history.waits);
    // The same attempt goes on after a pause, so the wait stands in its row, unless it is a step.
    const to = Math.max(worked, ...spans.map((span) => span.to));
    if (paused && !suspended && own.at(-1)?.kind !== 'sleep') waits.push(...pendingWaits(x, null, to, events));
    free = worked;
    return { index: attempt.index, attempt, waits, rests, steps: spans, from: attempt.started_at, to, depth: pack(spans) };
  });
  const last = attempts.at(-1);
  if (!isTerminal(x) && (!last || last.ended_at)) {
    const waits = pendingWaits(x, last, free, events);
    rows.push({ index: x.counts.attempts, attempt: null, waits, rests: [], steps: [], from: free, to: now(), depth: 1 });
  }
  return rows.slice(-ATTEMPTS_DRAWN_MAX);
}

/** What filled the time between two attempts: backoff, then waiting for a worker. */
function waitsBetween(before, from, to, events) {
  const replayed = events.find((e) => e.event === 'replayed' && e.at >= from && e.at <= to);
  const failed = !replayed && events.find((e) => e.retry_at && e.attempt_index === before?.index);
  const since = replayed ? replayed.at : from;
  const ready = Math.min(to, failed ? failed.retry_at : since);
  return [{ kind: 'backoff', from: since, to: ready }, { kind: 'waiting', from: ready, to }].filter((w) => w.to > w.from);
}

function pendingWaits(x, before, from, events) {
  const to = Math.max(now(), wakeAt(x));
  const kind = { waiting_for_delay: 'delayed', paused_by_operator: 'held' }[x.blocking_reason];
  return kind ? [{ kind, from, to }] : waitsBetween(before, from, to, events);
}

/** When each step ran. The store says when it was recorded, the worker how long it took. */
function stepSpans(steps, from, until, waits) {
  const spans = [];
  for (const step of [...steps].reverse()) {
    const after = spans[0]; // the step that follows
    // Recorded together, they carry one time: they are laid end to end before it.
    const to = Math.max(from, after?.step.at === step.at ? after.from : step.at);
    const span = { step, from: Math.max(from, to - step.ran_ms), to, lane: 0 };
    if (step.kind === 'sleep' && step.ran_ms === 0) {
      // Recorded when it fell asleep: it slept until its result, or else until something followed.
      const wake = step.result > step.at ? step.result : after?.from ?? until;
      span.to = Math.max(to, Math.min(until, wake));
    }
    // Recorded when it began to wait, which it did until the answer.
    if (isQuestion(step)) span.to = Math.max(to, questionEnd(step, steps, waits));
    spans.unshift(span);
  }
  return spans;
}

/** Puts steps that ran side by side below each other; answers how many rows that takes. */
function pack(spans) {
  const ends = [];
  // The two clocks disagree by a little, and that is no overlap.
  const slack = 2 + (spans.length ? (spans.at(-1).to - spans[0].from) / 500 : 0);
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const free = ends.findIndex((end) => end <= span.from + slack);
    span.lane = free >= 0 ? free : ends.length < 4 ? ends.length : 0;
    ends[span.lane] = span.to;
  }
  return Math.max(1, ends.length);
}

function timelineRange({ snapshot: x }, rows) {
  const row = rows.find((each) => each.index === zoom);
  if (!row) zoom = null;
  const from = row ? row.from : x.created_at;
  const ended = row?.attempt?.ended_at ?? (isTerminal(x) ? x.completed_at : null);
  if (ended) return { from, to: Math.max(ended, from + 10) };
  // The scale grows by a few percent at a time, so that bars stand still in between.
  const grain = 2 ** Math.floor(Math.log2(Math.max(320, now() - from) / 32));
  const lived = Math.ceil(Math.max(1, now() - from) / grain) * grain;
  // Nobody knows how long others take. Else what lies ahead, which may be days, gets at most a third
  // of the picture.
  const ahead = x.public_state === 'suspended' ? 0 : wakeAt(x) - from;
  return { from, to: from + Math.max(lived, Math.min(ahead, 1.5 * lived)) };
}

function drawAxis(range, x, width, height) {
  const length = range.to - range.from;
  const wanted = length / Math.max(2, Math.floor(width / 105));
  const tick = TICKS_MS.find((ms) => ms >= wanted) ?? wanted;
  const parts = [];
  for (let t = 0; t <= length; t += tick) {
    const at = x(range.from + t);
    // The outermost labels are turned inwards.
    const end = at > width - 40;
    const anchor = end ? 'end' : t ? 'middle' : 'start';
    parts.push(svg('line', { class: 'grid', x1: at, x2: at, y1: 24, y2: height }),
      svg('text', { class: 'tick', x: end ? width - 4 : at, y: 16, 'text-anchor': anchor, 'data-tip': absolute(range.from + t) },
        t ? `+${duration(t).replace('.0 ', ' ')}` : '0'));
  }
  return parts;
}

/** A part of the picture between two times, or nothing when it lies outside. */
function place(from, to, { x, range }, least = 0) {
  if (to < range.from || from > range.to) return null;
  const left = x(Math.max(from, range.from));
  return { x: left, width: Math.max(least, x(Math.min(to, range.to)) - left) };
}

function drawRow(row, frame) {
  const { index, attempt } = row;
  const height = 8 + row.depth * STEP_HEIGHT;
  const top = frame.y + 17;
  const bar = place(row.from, row.to, frame, 3);
  const lasts = duration(Math.min(row.to, now()) - row.from);
  const tip = attempt && [`attempt ${index} · ${attempt.kind}`, `${outcomeOf(attempt)} · ${lasts}`,
    `by ${attempt.worker.instance}`, absolute(row.from), attempt.failure?.reason].filter(Boolean).join('\n');
  const label = attempt ? ` ${attempt.kind} · ${outcomeOf(attempt)} · ${lasts}` : ' to come';
  return svg('g', { class: attempt ? toneOf(attempt) : 'is-waiting', 'data-key': `row-${index}` },
    row.waits.map((wait) => drawWait(wait, frame, top + height / 2)),
    attempt && bar ? svg('rect', { class: 'attempt-bar', ...bar, y: top, height, rx: 5, 'data-tip': tip }) : null,
    row.rests.map((rest) => drawWait(rest, frame, top + height / 2)),
    row.steps.map((span) => drawStep(span, frame, top + 4)),
    rowLabel(`attempt ${index}`, label, frame, bar?.x ?? PAD));
}

function rowLabel(strong, rest, { y, width }, left) {
  // An estimate of its width is enough to keep it inside the picture.
  const fits = left + (strong.length + rest.length) * 6.3 < width;
  return svg('text', { class: 'row-label', x: fits ? left : width - PAD, y: y + 11, 'text-anchor': fits ? 'start' : 'end' },
    svg('tspan', { class: 'strong' }, strong), rest);
}

function drawWait({ kind, from, to }, frame, middle) {
  const at = place(from, to, frame);
  if (!at || at.width < 1) return null;
  const text = `${kind} ${duration(to - from)}`;
  const hatch = { waiting: 'url(#hatch)', suspended: 'url(#hatch-ask)' }[kind] ?? 'url(#hatch-pause)';
  return svg('g', { class: 'wait', 'data-tip': `${text}\n${absolute(from)}\nto ${absolute(to)}` },
    svg('rect', { ...at, y: middle - 8, height: 16, rx: 3, fill: hatch }),
    at.width < text.length * 6 + 4 ? null
      : svg('text', { x: at.x + at.width / 2, y: middle + 3.5, 'text-anchor': 'middle' }, text));
}

function drawStep({ step, from, to, lane }, frame, top) {
  const at = place(from, to, frame, 3);
  if (!at) return null;
  const y = top + lane * STEP_HEIGHT;
  const box = { x: at.x.toFixed(1), width: Math.max(2, at.width - 1).toFixed(1), y, height: STEP_HEIGHT, rx: 3 };
  const took = duration(to - from);
  return signed(svg, 'g', `bar-${step.number}`, [route.id, box.x, box.width, y, took].join(), () => {
    const tip = [`${step.number} · ${step.name}`, `${step.kind} · ${took} · attempt ${step.attempt_index}`,
      absolute(from), preview(step, 140)].filter(Boolean).join('\n');
    const room = Math.floor((at.width - 8) / 6.2);
    const label = room >= Math.min(5, step.name.length) ? shorten(step.name, room) : '';
    return [{ class: `step-bar kind-${step.kind}`, 'data-tip': tip, 'data-step': step.number },
      svg('rect', { class: 'base', ...box }),
      step.kind === 'sleep' ? svg('rect', { ...box, fill: 'url(#hatch-pause)' }) : null,
      step.kind === 'wait' ? svg('rect', { ...box, fill: 'url(#hatch-ask)' }) : null,
      label ? svg('text', { x: at.x + 5, y: y + 12.5 }, label) : null];
  });
}

function drawEvent(event, x, height) {
  const at = x(event.at);
  const tip = [words(event.event), describe(event), absolute(event.at)].filter(Boolean).join('\n');
  return svg('g', { class: `event-mark ${toneOf(event)}`, 'data-key': event.cursor, 'data-tip': tip },
    svg('line', { x1: at, x2: at, y1: 40, y2: height }), svg('path', { d: `M${at} 29l6 6-6 6-6-6z` }));
}

function zoomButtons({ attempts }) {
  const button = (value, text) => el('button', {
    type: 'button', 'data-zoom': value ?? 'all', 'aria-pressed': zoom === value ? 'true' : 'false',
  }, text);
  return attempts.length === 0 ? null : el('div', { class: 'zoom', 'data-key': 'zoom', role: 'group', 'aria-label': 'What the timeline shows' },
    button(null, 'whole life'), attempts.slice(-ATTEMPTS_DRAWN_MAX).map((a) => button(a.index, `attempt ${a.index}`)));
}

function showTip(event) {
  const tip = $('tip');
  const mark = event.type === 'pointerleave' ? null : event.target.closest('[data-tip]');
  tip.hidden = !mark;
  if (!mark) return;
  const [title, ...lines] = mark.dataset.tip.split('\n');
  show(tip, el('b', {}, title), lines.map((line) => el('span', {}, line)));
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18;
  const top = below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below;
  Object.assign(tip.style, { left: `${Math.max(8, left)}px`, top: `${Math.max(8, top)}px` });
}

// ---- Flows -------------------------------------------------------------------------------------

async function loadFlows(signal) {
  const query = new URLSearchParams({ ...route.filters, limit: rowsWanted });
  const of = flowsHref(route.filters);
  data.flows = { ...await get(`/v1/flows?${query}`, signal), of };
}

/** Draws the list of flows; answers whether the problem, if there is one, stands in its place. */
function renderFlows() {
  document.title = 'Flows · FlowFabric';
  renderFlowFilters();
  const list = data.flows?.of === flowsHref(route.filters) ? data.flows : null;
  const instead = isRefused() || (!list && data.problem);
  const rows = instead ? [] : (list?.flows ?? []);
  $('flow-table').classList.toggle('is-empty', rows.length === 0);
  show($('flow-rows'), rows.map(flowRow));
  show($('flow-foot'), instead ? problemCard(data.problem) : flowsFoot(list));
  return instead;
}

function renderFlowFilters() {
  const form = $('flow-filters').elements;
  const kinds = new Set((data.flows?.flows ?? []).map((flow) => flow.flow_kind));
  show($('flow-kinds'), [...kinds].sort().map((value) => el('option', { value, 'data-key': value }, value)));
  for (const name of FLOW_FILTERS) {
    if (form[name] && form[name] !== document.activeElement) form[name].value = route.filters[name] ?? '';
  }
  $('flow-clear').hidden = FLOW_FILTERS.every((name) => !route.filters[name]);
  const chip = (state) => el('a', {
    'data-key': state || 'all', class: `chip is-${state || 'any'}`, href: flowsHref({ ...route.filters, state }),
    'aria-current': (route.filters.state ?? '') === state ? 'true' : null,
  }, state ? el('i') : null, state || 'all');
  show($('flow-states'), ['', ...FLOW_STATES].map(chip));
}

function flowsFoot(list) {
  if (!list) return el('p', { class: 'muted center' }, 'Loading…');
  if (list.flows.length === 0) return template($('flow-clear').hidden ? 'first-flow' : 'nothing-flow');
  return listEnd(list.flows.length, list.next, 'flow');
}

const endedOf = ({ ended }) => ended.well + ended.badly;
const flowTook = (flow) => duration((flow.ended_at ?? now()) - flow.created_at);

function flowRow(flow) {
  const sign = [flow.last_mutation_at, flowTook(flow), relative(flow.created_at)].join();
  return signed(el, 'tr', flow.flow_id, sign, () => flowCells(flow));
}

function flowCells(flow) {
  const href = flowHref(flow.flow_id);
  const tags = Object.entries(flow.tags).map(([key, value]) => `${key}:${value}`).join('  ');
  const note = flow.cancel_reason ?? (flow.sealed || flow.ended_at ? '' : 'more may be added');
  return [{ 'data-href': href, class: `is-${flow.state}` },
    el('td', { class: 'c-state' }, stateWord(flow.state)),
    el('td', { class: 'c-what' },
      el('a', { class: 'kind', href, title: flow.flow_kind }, flow.flow_kind),
      el('span', { class: 'under' },
        el('code', { title: flow.flow_id }, shortId(flow.flow_id)), copyButton(flow.flow_id, 'the id'),
        el('span', { class: 'tags-line', title: tags }, tags))),
    el('td', { class: 'c-progress' }, endedLine(flow)),
    el('td', { class: 'c-note' }, el('span', { class: 'clip', title: note }, note)),
    el('td', { class: 'c-took' }, flowTook(flow)),
    el('td', { class: 'c-created' }, when(flow.created_at))];
}

/** How many members have ended, well and badly, of all. */
function endedLine(flow) {
  const share = (n) => `${(100 * n) / Math.max(1, flow.node_count)}%`;
  const text = `${whole.format(endedOf(flow))} of ${whole.format(flow.node_count)}`;
  return el('span', { class: 'progress-line' },
    el('span', { class: 'bar parts', role: 'img', 'aria-label': `${text} ended` },
      el('i', { class: 'is-completed', style: { width: share(flow.ended.well) } }),
      // A single one must be seen beside thousands.
      flow.ended.badly ? el('i', { class: 'is-failed', style: { width: `max(3px, ${share(flow.ended.badly)})` } }) : null),
    el('span', {}, text));
}

// ---- One flow ----------------------------------------------------------------------------------

async function loadFlow(signal) {
  const { id } = route;
  const path = `/v1/flows/${encodeURIComponent(id)}`;
  const [flow, summary, { members, next }] = await Promise.all([
    get(path, signal), get(`${path}/summary`, signal), get(`${path}/members?limit=${ROWS_MAX}`, signal)]);
  const drawable = flow.node_count <= GRAPH_NODES_MAX && flow.edge_count <= GRAPH_EDGES_MAX;
  // No edge changes without its flow, so that most of the time they need not be read again.
  const seen = [id, flow.graph_revision, flow.last_mutation_at].join();
  let edges = data.flow?.seen === seen ? data.flow.edges : null;
  if (drawable && !edges) ({ edges } = await get(`${path}/edges?limit=${GRAPH_EDGES_MAX}`, signal));
  data.flow = { of: id, flow, summary, members, more: Boolean(next), edges: edges ?? [], drawable, seen };
}

/** Draws one flow; answers whether the problem, if there is one, stands in its place. */
function renderFlow() {
  const view = $('flow-view');
  const read = data.flow?.of === route.id ? data.flow : null;
  const back = el('a', { class: 'back', href: places.flows.href }, icon('back'), 'Flows');
  if (!read || isRefused()) {
    const what = data.problem ? problemCard(data.problem) : el('p', { class: 'muted' }, 'Loading…');
    show(view, back, el('div', { class: 'card pad waiting-room' }, what));
    return true;
  }
  document.title = `${read.flow.flow_kind} · ${read.summary.public_flow_state} · FlowFabric`;
  const drawable = read.drawable && read.members.length > 0;
  const layout = drawable ? layoutOf(read) : null;
  const shown = view.querySelector('.graph-frame') && renderFlow.shown === route.id;
  show(view, back, flowHead(read), drawable ? graphSection(read, layout) : null, membersSection(read, layout));
  if (!shown) centreGraph();
  renderFlow.shown = route.id;
  return false;
}

function flowHead({ flow, summary }) {
  const state = summary.public_flow_state;
  const took = flow.ended_at ? `took ${flowTook(flow)}` : '';
  return el('section', { class: `card pad is-${state}`, 'data-key': 'head' },
    el('div', { class: 'head-line' }, el('h1', {}, flow.flow_kind), stateWord(state)),
    el('div', { class: 'under' }, el('code', { class: 'whole-id' }, flow.flow_id), copyButton(flow.flow_id, 'the id')),
    el('dl', { class: 'facts' },
      fact('Members', `${whole.format(endedOf(flow))} of ${whole.format(flow.node_count)}`, 'ended'),
      summary.spared_count > 0 ? fact('Spared', whole.format(summary.spared_count), 'go on for another join') : null,
      fact('Namespace', flow.namespace),
      fact('Created', when(flow.created_at), flow.creator_identity ? `by ${flow.creator_identity}` : ''),
      flow.ended_at ? fact('Ended', when(flow.ended_at), took) : fact('Running for', flowTook(flow))),
    tagList(flow.tags, flowsHref, 'Flows'), buckets(summary), flowPanels(flow));
}

const POLICIES = {
  cancel_all: 'with all its members', cancel_pending: 'what ran went on', cancel_flow_only: 'its members went on',
};

function flowPanels(flow) {
  const panels = [];
  if (flow.cancelled_at) {
    const text = [flow.cancel_reason, el('small', {}, ` ${POLICIES[flow.cancellation_policy] ?? ''}, `, when(flow.cancelled_at))];
    panels.push(panel('Cancelled', 'trouble is-cancelled', text));
  } else if (!flow.sealed && !flow.ended_at) {
    panels.push(panel('Open', '', 'More may be added. It ends once it is sealed and all its members have ended.'));
  }
  return panels;
}

// What has ended comes first, as in a bar that fills.
const BUCKETS = ['completed', 'skipped', 'cancelled', 'expired', 'failed', 'active', 'suspended', 'delayed', 'waiting', 'waiting_children'];

/** What the members are doing: a bar, and a button for each state that lists those in it. */
function buckets(summary) {
  const total = Math.max(1, summary.total_members);
  const some = BUCKETS.map((state) => [state, summary[`members_${state}`]]).filter(([, n]) => n > 0);
  if (some.length === 0) return null;
  const button = ([state, n]) => el('button', {
    type: 'button', class: `chip is-${state}`, 'data-key': state, 'data-bucket': state,
    'aria-pressed': bucket === state ? 'true' : 'false', title: 'List these',
  }, el('i'), words(state), el('span', {}, whole.format(n)));
  return el('div', { class: 'buckets' },
    el('span', { class: 'bar parts', 'aria-hidden': 'true' }, some.map(([state, n]) =>
      el('i', { class: `is-${state}`, 'data-key': state, style: { width: `${(100 * n) / total}%` } }))),
    el('div', { class: 'states' }, some.map(button)));
}

const nameOf = (x) => x.node ?? shortId(x.execution_id);
// What a person looks for first.
const URGENCY = ['failed', 'expired', 'cancelled', 'suspended', 'active', 'delayed', 'waiting', 'waiting_children', 'skipped', 'completed'];
const collator = new Intl.Collator('en', { numeric: true });
const byName = (a, b) => collator.compare(nameOf(a), nameOf(b)) || (a.execution_id < b.execution_id ? -1 : 1);
const byState = (a, b) =>
  URGENCY.indexOf(a.public_state) - URGENCY.indexOf(b.public_state) || byName(a, b);

function membersSection({ members, more, summary }, layout) {
  const rank = layout && new Map(layout.nodes.map((node, i) => [node.id, i]));
  const order = rank ? (a, b) => rank.get(a.execution_id) - rank.get(b.execution_id) : byState;
  const listed = members.filter((x) => !bucket || x.public_state === bucket).sort(order);
  if (listed.length === 0) return section('Members', 0, none(members.length ? `None is ${words(bucket)} now.` : 'It has none yet.'));
  const head = [['state', 'State'], ['what', 'Member'], ['note', 'Standing'], ['attempts', 'Attempts'], ['took', 'Took']];
  return section('Members', summary.total_members,
    el('table', { class: 'members' },
      el('thead', {}, el('tr', {}, head.map(([name, text]) => el('th', { scope: 'col', class: `c-${name}` }, text)))),
      el('tbody', {}, listed.map(memberRow))),
    more ? none(`The first ${whole.format(ROWS_MAX)} are shown.`) : null);
}

function memberRow(x) {
  const took = x.started_at ? duration((x.completed_at ?? now()) - x.started_at) : '–';
  const sign = [x.last_mutation_at, x.public_state, took, relative(wakeAt(x)), x.progress?.at].join();
  const href = executionHref(x.execution_id);
  return signed(el, 'tr', `member ${x.execution_id}`, sign, () => [{ 'data-href': href, class: `is-${x.public_state}` },
    el('td', { class: 'c-state' }, stateWord(x.public_state)),
    el('td', { class: 'c-what' }, el('a', { class: 'kind', href, title: nameOf(x) }, nameOf(x)),
      el('span', { class: 'under' }, x.execution_kind)),
    el('td', { class: 'c-note' }, standing(x)),
    el('td', { class: 'c-attempts' }, x.counts.attempts),
    el('td', { class: 'c-took' }, took)]);
}

// ---- Graph -------------------------------------------------------------------------------------

const NODE_WIDTH = 172;
const NODE_HEIGHT = 48;
const PASS_HEIGHT = 8; // an edge on its way to a later layer
const GAP_X = 68;
const GAP_X_MAX = 240; // between layers whose edges lead far up and down
const GAP_Y = 16;
const GRAPH_PAD = 18;
const SWEEPS = 8;
const DENSE = 60; // more edges are drawn finer
const READABLE = 0.75; // drawn smaller than this, names can hardly be read

/** Where everything stands. It is computed anew only when the graph has grown. */
function layoutOf({ of, flow, members, edges }) {
  const key = [of, flow.graph_revision, members.length, edges.length].join();
  if (layoutOf.key === key) return layoutOf.layout;
  const nodes = [...members].sort(byName).map((x) => item(x.execution_id, NODE_HEIGHT));
  const place = new Map(nodes.map((node) => [node.id, node]));
  const links = edges
    .map((edge) => ({ id: edge.edge_id, from: place.get(edge.upstream_execution_id), to: place.get(edge.downstream_execution_id) }))
    .filter(({ from, to }) => from && to);
  putInLayers(nodes, links);
  const layers = [];
  for (const node of nodes) (layers[node.layer] ??= []).push(node);
  for (const link of links) thread(link, layers);
  orderLayers(layers);
  placeLayers(layers);
  nodes.sort((a, b) => a.layer - b.layer || a.y - b.y);
  const layout = { nodes, links, ...frameOf(layers) };
  Object.assign(layoutOf, { key, layout });
  return layout;
}

/** Moves everything to where it is drawn; answers how large that is. */
function frameOf(layers) {
  const all = layers.flat();
  const top = Math.min(...all.map(({ y, height }) => y - height / 2)) - GRAPH_PAD;
  let x = GRAPH_PAD;
  for (const layer of layers) {
    const steepest = Math.max(0, ...layer.flatMap((each) => [...each.after].map((next) => Math.abs(next.y - each.y))));
    for (const each of layer) each.x = x;
    x += NODE_WIDTH + Math.min(GAP_X_MAX, GAP_X + steepest / 12);
  }
  for (const each of all) each.y -= top;
  return {
    width: GRAPH_PAD + Math.max(...all.map((each) => each.x)) + NODE_WIDTH,
    height: GRAPH_PAD + Math.max(...all.map(({ y, height }) => y + height / 2)),
  };
}

/** A node, or what passes a layer. `before` and `after` are its neighbours in the layers beside it. */
const item = (id, height) => ({ id, height, layer: 0, before: new Set(), after: new Set(), passes: [] });

/** The layer of a node is the longest way to it from one that waits for nothing. */
function putInLayers(nodes, links) {
  const waits = new Map(nodes.map((node) => [node, 0]));
  for (const { to } of links) waits.set(to, waits.get(to) + 1);
  const free = nodes.filter((node) => waits.get(node) === 0);
  const following = Map.groupBy(links, ({ from }) => from);
  for (let node = free.pop(); node; node = free.pop()) {
    for (const { to } of following.get(node) ?? []) {
      to.layer = Math.max(to.layer, node.layer + 1);
      waits.set(to, waits.get(to) - 1);
      if (waits.get(to) === 0) free.push(to);
    }
  }
}

/** Leads an edge through the layers between its ends, on a way that all edges of its node share. */
function thread(link, layers) {
  const { from, to } = link;
  link.way = [];
  let at = from;
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    if (!from.passes[layer]) {
      from.passes[layer] = { ...item(null, PASS_HEIGHT), layer };
      layers[layer].push(from.passes[layer]);
    }
    const pass = from.passes[layer];
    connect(at, pass);
    link.way.push(pass);
    at = pass;
  }
  connect(at, to);
}

function connect(a, b) {
  a.after.add(b);
  b.before.add(a);
}

/** Orders layers so that few edges cross: by where the neighbours are on average, to and fro. */
function orderLayers(layers) {
  const number = () => { for (const layer of layers) layer.forEach((each, i) => { each.at = i; }); };
  number();
  let best = { crossings: crossings(layers), order: layers.map((layer) => [...layer]) };
  for (let sweep = 0; sweep < SWEEPS && best.crossings > 0; sweep += 1) {
    const side = sweep % 2 === 0 ? 'before' : 'after';
    for (const layer of side === 'before' ? layers : [...layers].reverse()) {
      const wanted = new Map(layer.map((each) => [each, mean([...each[side]].map(({ at }) => at)) ?? each.at]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a.at - b.at);
      layer.forEach((each, i) => { each.at = i; });
    }
    const crossed = crossings(layers);
    if (crossed < best.crossings) best = { crossings: crossed, order: layers.map((layer) => [...layer]) };
  }
  best.order.forEach((layer, i) => { layers[i] = layer; });
  number();
}

function crossings(layers) {
  let sum = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((from) => [...from.after].map((to) => [from.at, to.at]));
    for (const [a, x] of ends) for (const [b, y] of ends) if (a < b && x > y) sum += 1;
  }
  return sum;
}

/** Heights near those of the neighbours, without overlapping, in the order of the layer. */
function placeLayers(layers) {
  for (const layer of layers) stack(layer, layer.map((each) => each.at * (NODE_HEIGHT + GAP_Y)));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const side = sweep % 2 === 0 ? 'before' : 'after';
    for (const layer of side === 'before' ? layers : [...layers].reverse()) {
      stack(layer, layer.map((each) => mean([...each[side]].map(({ y }) => y)) ?? each.y));
    }
  }
}

/** The places nearest to the ones wanted that are in order and far enough apart. */
function stack(layer, wanted) {
  const offsets = [];
  layer.forEach(({ height }, i) => {
    offsets.push(i === 0 ? 0 : offsets[i - 1] + (layer[i - 1].height + height) / 2 + GAP_Y);
  });
  // Without the distances it is enough that they do not fall: neighbours that would are pooled.
  const pools = [];
  wanted.forEach((y, i) => {
    pools.push({ mean: y - offsets[i], size: 1 });
    while (pools.length > 1 && pools.at(-2).mean > pools.at(-1).mean) {
      const [a, b] = pools.splice(-2);
      const size = a.size + b.size;
      pools.push({ mean: (a.mean * a.size + b.mean * b.size) / size, size });
    }
  });
  const flat = pools.flatMap((pool) => Array(pool.size).fill(pool.mean));
  layer.forEach((each, i) => { each.y = flat[i] + offsets[i]; });
}

const mean = (all) => (all.length ? all.reduce((sum, one) => sum + one, 0) / all.length : null);

function graphSection(read, layout) {
  const room = Math.max(240, $('flow-view').clientWidth - 2);
  const fit = Math.min(1, room / layout.width, graphHeight() / layout.height);
  const chosen = scale ?? (fit < READABLE ? 'readable' : 'fit');
  const drawnAt = { fit, full: 1, readable: Math.min(1, Math.max(READABLE, fit)) }[chosen];
  const groups = new Map(read.flow.edge_groups.map((group) => [group.downstream_execution_id, group]));
  const members = new Map(read.members.map((x) => [x.execution_id, x]));
  const edges = new Map(read.edges.map((edge) => [edge.edge_id, edge]));
  const spoken = `${count(layout.nodes.length, 'node')} and ${count(layout.links.length, 'edge')}; the nodes are listed below`;
  const node = svg('svg', {
    class: layout.links.length > DENSE ? 'graph dense' : 'graph', 'data-key': 'graph', role: 'group', 'aria-label': spoken,
    width: Math.round(layout.width * drawnAt), height: Math.round(layout.height * drawnAt),
    viewBox: `0 0 ${layout.width} ${layout.height}`,
  }, layout.links.map((link) => drawEdge(link, edges.get(link.id), members)),
  layout.nodes.map((place) => drawNode(place, members.get(place.id), groups.get(place.id))));
  return section('Graph', layout.nodes.length, fit < 1 ? scaleButtons(chosen) : null,
    el('div', { class: 'graph-frame', 'data-key': 'frame', tabindex: 0, role: 'region', 'aria-label': 'Graph' }, node),
    graphLegend(read.edges));
}

// As the style sheet bounds its frame.
const graphHeight = () => Math.min(0.74 * innerHeight, 760);

function scaleButtons(chosen) {
  const button = ([value, text]) => el('button', {
    type: 'button', 'data-scale': value, 'aria-pressed': chosen === value ? 'true' : 'false',
  }, text);
  return el('div', { class: 'zoom', 'data-key': 'scale', role: 'group', 'aria-label': 'How large the graph is drawn' },
    [['fit', 'whole graph'], ['readable', 'readable'], ['full', 'full size']].map(button));
}

/** Brings the first layer into sight: beside a wide fan it stands far down. */
function centreGraph() {
  const frame = document.querySelector('.graph-frame');
  const first = frame?.querySelector('.node')?.getBoundingClientRect();
  if (first) frame.scrollTop += first.top - frame.getBoundingClientRect().top - frame.clientHeight / 2;
}

const KIND_WORDS = { success_only: 'on success', any_terminal: 'however it ends', failure_only: 'on failure' };

function graphLegend(edges) {
  const kinds = Object.keys(KIND_WORDS).filter((kind) => edges.some((edge) => edge.dependency_kind === kind));
  if (kinds.length < 2) return null;
  const key = (kind) => el('span', {}, svg('svg', { width: 26, height: 8, class: `edge kind-${kind}` },
    svg('path', { d: 'M0 4h26' })), KIND_WORDS[kind]);
  return el('p', { class: 'legend', 'aria-hidden': 'true' }, kinds.map(key));
}

function drawEdge({ id, from, to, way }, edge, members) {
  if (!edge) return null;
  const curve = (x1, y1, x2, y2) => `C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
  let [x, y] = [from.x + NODE_WIDTH, from.y];
  let d = `M${x} ${y}`;
  for (const pass of way) {
    d += `${curve(x, y, pass.x, pass.y)}H${pass.x + NODE_WIDTH}`;
    [x, y] = [pass.x + NODE_WIDTH, pass.y];
  }
  const head = `M${to.x - 7} ${to.y - 4}l6 4l-6 4`;
  const names = [from, to].map((end) => nameOf(members.get(end.id)));
  const sign = [d, edge.edge_state].join();
  return signed(svg, 'g', `edge ${id}`, sign, () => {
    const tip = [names.join(' → '), `${KIND_WORDS[edge.dependency_kind]} · ${edge.edge_state}`,
      edge.name ? `its result is read as ${edge.name}` : '', edge.data_passing_ref ? 'its result becomes the input' : '']
      .filter(Boolean).join('\n');
    return [{ class: `edge state-${edge.edge_state} kind-${edge.dependency_kind}`, 'data-tip': tip },
      svg('path', { class: 'reach', d: d + curve(x, y, to.x - 1, to.y) }),
      svg('path', { d: d + curve(x, y, to.x - 1, to.y) }), svg('path', { class: 'head', d: head })];
  });
}

function joinWord(group) {
  const { kind, k } = group?.policy ?? {};
  if (!group || kind === 'all_of') return '';
  return kind === 'any_of' ? `any of ${group.total_deps}` : `${k} of ${group.total_deps}`;
}

function nodeLine(x, group) {
  const took = x.started_at ? duration((x.completed_at ?? now()) - x.started_at) : '';
  if (x.public_state === 'active' && x.progress && percentOf(x.progress)) return `active · ${percentOf(x.progress)}`;
  if (x.public_state === 'waiting_children' && group) return `waits for ${count(group.running_count, 'other')}`;
  if (x.public_state === 'suspended') return words(x.blocking_reason);
  if (x.public_state === 'delayed' && wakeAt(x)) return `delayed · ${relative(wakeAt(x))}`;
  return [words(x.public_state), took].filter(Boolean).join(' · ');
}

function drawNode({ id, x, y }, member, group) {
  if (!member) return null;
  const name = nameOf(member);
  const line = nodeLine(member, group);
  const join = joinWord(group);
  const sign = [x, y, name, line, join, member.public_state, group?.satisfied_count, group?.failed_count].join();
  return signed(svg, 'a', `node ${id}`, sign, () => {
    const [left, top] = [x, y - NODE_HEIGHT / 2];
    const why = member.failure ? `${member.failure.category}: ${member.failure.reason}` : because(member);
    const waits = join ? `${join}: ${group.satisfied_count} so far${group.failed_count ? `, ${group.failed_count} in vain` : ''}` : '';
    const tip = [name, `${member.execution_kind} in ${member.lane_id}`, line, waits, why].filter(Boolean).join('\n');
    return [{ class: `node is-${member.public_state}`, href: executionHref(id), 'data-tip': tip, 'aria-label': `${name}, ${line}` },
      svg('rect', { class: 'box', x: left, y: top, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 9 }),
      svg('circle', { cx: left + 16, cy: top + 17, r: 4.5 }),
      svg('text', { class: 'name', x: left + 28, y: top + 21 }, shorten(name, 19)),
      svg('text', { class: 'line', x: left + 28, y: top + 37 }, shorten(line, 24)),
      join ? joinMark(join, left, top) : null];
  });
}

function joinMark(text, left, top) {
  const width = 12 + text.length * 5.8;
  return [svg('rect', { class: 'join', x: left + NODE_WIDTH - width - 10, y: top - 8, width, height: 16, rx: 8 }),
    svg('text', { class: 'join-text', x: left + NODE_WIDTH - 10 - width / 2, y: top + 3.5, 'text-anchor': 'middle' }, text)];
}

// ---- Drawing and routing -----------------------------------------------------------------------

const VIEWS = {
  list: { load: loadList, render: renderList },
  execution: { load: loadExecution, render: renderExecution },
  flows: { load: loadFlows, render: renderFlows },
  flow: { load: loadFlow, render: renderFlow },
  inbox: { load: (signal) => loadInbox(signal), render: () => renderInbox() },
};

function render() {
  drawn = new Map([...document.querySelectorAll('[data-sign]')].map(({ dataset }) => [dataset.key, dataset.sign]));
  for (const view of Object.keys(VIEWS)) $(`${view}-view`).hidden = route.view !== view;
  for (const tab of $('tabs').children) {
    const own = tab.dataset.views.split(' ').includes(route.view);
    tab.toggleAttribute('aria-current', own);
  }
  const placed = VIEWS[route.view].render();
  renderWaiting();
  renderSaid();
  // The store or the way to it is in trouble: what was read last stays, with a word about it.
  const trouble = placed ? null : data.problem;
  $('notice').hidden = !trouble;
  if (trouble) {
    show($('notice'), el('code', {}, trouble.code ?? trouble.name), el('span', {}, trouble.message),
      el('small', {}, trouble.hint));
  }
  showLive();
}

function parseRoute() {
  const [path, query] = location.hash.slice(1).split('?', 2);
  const [, kind, id] = /^\/(executions|flows)\/(.+)$/.exec(path) ?? [];
  if (path === '/inbox') return { view: 'inbox', filters: {} };
  if (!id) {
    const [view, names] = path === '/flows' ? ['flows', FLOW_FILTERS] : ['list', FILTERS];
    const given = [...new URLSearchParams(query)].filter(([name, value]) => names.includes(name) && value);
    return { view, filters: Object.fromEntries(given) };
  }
  const view = kind === 'flows' ? 'flow' : 'execution';
  try {
    return { view, id: decodeURIComponent(id) };
  } catch {
    return { view, id }; // typed by hand; the API says what is wrong with it
  }
}

// Where each list was left, to return to.
const places = { list: { href: '#/executions', scroll: 0 }, flows: { href: '#/flows', scroll: 0 } };
const hrefOfList = ({ view, filters }) => (view === 'flows' ? flowsHref(filters) : listHref(filters));
let lastFlow = null; // the flow that was looked at last
let fromInbox = false;

function navigate() {
  const before = route;
  if (places[before.view]) Object.assign(places[before.view], { href: hrefOfList(before), scroll: scrollY });
  route = parseRoute();
  [zoom, scale, bucket] = [null, null, null];
  $('tip').hidden = true;
  const list = places[route.view];
  // A flow opened from a list is where its members lead back to.
  lastFlow = route.view === 'flow' ? route.id : list ? null : lastFlow;
  fromInbox = route.view === 'execution' && (before.view === 'inbox' || (fromInbox && before.view === 'execution'));
  if (route.view === 'inbox') rowsWanted = PAGE_ROWS;
  const back = list && hrefOfList(route) === list.href;
  if (list && (!back || places[before.view])) rowsWanted = PAGE_ROWS;
  restart();
  render();
  if (route.view !== before.view) scrollTo(0, back ? list.scroll : 0);
}

function applyFilters(event) {
  event.preventDefault();
  const form = event.currentTarget.elements;
  const filters = { ...route.filters };
  for (const name of route.view === 'flows' ? FLOW_FILTERS : FILTERS) {
    if (form[name]) filters[name] = form[name].value.trim();
  }
  location.hash = hrefOfList({ view: route.view, filters });
}

async function copy(button) {
  // A payload may be large, so its button does not carry it but stands before it.
  const text = button.dataset.copy || button.nextElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS only localhost has a clipboard API; the old way still works.
    const area = el('textarea', { class: 'visually-hidden' }, text);
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const mark = button.querySelector('use');
  mark.setAttribute('href', '#icon-done');
  setTimeout(() => mark.setAttribute('href', '#icon-copy'), 1200);
}

/** One listener for all: nodes come and go with every refresh. */
function onClick({ target }) {
  const button = target.closest('button');
  const step = target.closest('[data-step]');
  const row = target.closest('tr[data-href]');
  if (button?.dataset.copy !== undefined) copy(button);
  else if (button?.dataset.zoom) setZoom(button.dataset.zoom);
  else if (button?.dataset.scale) setScale(button.dataset.scale);
  else if (button?.dataset.bucket) setBucket(button.dataset.bucket);
  else if (button?.dataset.do === 'more') loadMore();
  else if (button?.dataset.do === 'token') restart();
  else if (step) openStep(step.dataset.step);
  // A row is a link for the mouse, unless text in it was selected.
  else if (row && !target.closest('a, button') && getSelection().isCollapsed) location.hash = row.dataset.href;
}

function setZoom(value) {
  zoom = value === 'all' ? null : Number(value);
  render();
}

function setScale(value) {
  scale = value;
  render();
  centreGraph();
}

function setBucket(state) {
  bucket = bucket === state ? null : state;
  render();
}

function loadMore() {
  rowsWanted = Math.min(ROWS_MAX, rowsWanted + PAGE_ROWS);
  refreshSoon();
}

function openStep(number) {
  const line = $(`step-${number}`);
  line.open = true;
  line.scrollIntoView({ block: 'center' });
  line.querySelector('summary').focus({ preventScroll: true });
}

function declineToken() {
  askForToken.declined = true;
  $('token-dialog').close();
}

function start() {
  const on = (id, type, handler) => $(id).addEventListener(type, handler);
  on('theme', 'click', toggleTheme);
  on('filters', 'submit', applyFilters);
  on('filters', 'change', applyFilters);
  on('flow-filters', 'submit', applyFilters);
  on('flow-filters', 'change', applyFilters);
  on('clear', 'click', () => { location.hash = listHref({}); });
  on('flow-clear', 'click', () => { location.hash = flowsHref({}); });
  on('newest', 'click', () => { scrollTo(0, 0); refreshSoon(); });
  on('token-form', 'submit', keepToken);
  on('token-cancel', 'click', declineToken);
  on('token-dialog', 'cancel', declineToken);
  // The hash belongs to the routes, so the link moves the focus by hand.
  on('skip', 'click', (event) => { event.preventDefault(); $('main').focus(); });
  for (const view of ['execution-view', 'flow-view']) {
    on(view, 'pointermove', showTip);
    on(view, 'pointerleave', showTip);
  }
  document.addEventListener('click', onClick);
  document.addEventListener('submit', answer);
  document.addEventListener('toggle', render, true);
  document.addEventListener('visibilitychange', restart);
  addEventListener('hashchange', navigate);
  addEventListener('resize', () => requestAnimationFrame(render));
  // Ages, countdowns and bars under way move on between two refreshes.
  setInterval(() => { if (!document.hidden) render(); }, 1000);
  history.scrollRestoration = 'manual';
  navigate();
}

document.addEventListener('DOMContentLoaded', start);
