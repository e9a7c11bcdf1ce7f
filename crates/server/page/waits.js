// The part of the live page about waiting: the inbox, what one execution waits for, and the forms
// that answer. Nothing else on the page changes anything.
//
// What must stay true:
// * A decision carries the digest of the very subject that stands above its buttons.
// * A subject is shown as it was written: nothing in it is dropped, reordered or hidden.
// * Only a button decides, never the Enter key in a field, nor a button that has just moved.
// * What was typed survives every refresh; what was refused is told where it was asked.
'use strict';

const WAITPOINTS_MAX = 1000; // the most that the API hands out at once
const SIGNALS_MAX = 100;
const COUNTED_MAX = 100; // more is told as so many and more
const LOOKUPS_MAX = 20; // executions that one refresh asks about
const KNOWN_MAX = 2000;
const SAID_MS = 8000;
const MOVED_MS = 500; // a button that has just moved is not what the hand was after

const forms = new Map(); // what became of a form that was sent: key to { busy } or { problem }
const known = new Map(); // executions by id: what they are never changes
let movedAt = -Infinity; // when a card left, and those below moved up
let said = null; // what the page tells after something was done

// ---- Words -------------------------------------------------------------------------------------

const THEN = {
  fail: 'it fails', cancel: 'it is cancelled', expire: 'it expires', escalate: 'an operator is asked',
  auto_resume_with_timeout_signal: 'it goes on without an answer',
};
const CLOSED = {
  resumed: 'it had what it waited for', cancelled: 'it was cancelled', timed_out_fail: 'nobody came in time, and it failed',
  timed_out_cancel: 'nobody came in time, and it was cancelled', timed_out_expire: 'nobody came in time, and it expired',
  timed_out_auto_resume: 'nobody came in time, and it went on', never_committed: 'it was never asked',
  proactive_close: 'it was closed unused',
};
const EFFECTS = {
  resume_condition_satisfied: 'it goes on', appended_to_waitpoint: 'counted, needs more',
  appended_to_waitpoint_duplicate: 'was said before', signal_ignored_not_in_condition: 'not waited for',
  signal_ignored_matcher_failed: 'not what is waited for', buffered_for_pending_waitpoint: 'kept until it is waited for',
};
const effectWord = (effect) => EFFECTS[effect] ?? words(effect);
const closedWord = ({ close_reason: how, satisfied_by: by }) =>
  (how === 'resumed' && by.length === 0 ? 'an operator let it go on' : CLOSED[how] ?? words(how ?? ''));

/** Names in a sentence: `ann, bob or carl`. */
function listed(names, last) {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} ${last} ${names.at(-1)}`;
}

function countWords({ n, distinct, signal, waitpoints }, named) {
  const at = listed(waitpoints, 'or');
  if (distinct === 'signals') return `${count(n, 'signal')}${signal ? ` “${signal}”` : ''} at ${at}`;
  if (distinct === 'sources') return `${named} at ${at} from ${count(n, 'sender')}`;
  return `${named} at ${waitpoints.length > 1 ? `${n} of ${listed(waitpoints, 'and')}` : at}`;
}

/** What is waited for, in words. */
function conditionWords(condition) {
  if (condition === 'operator_only') return 'an operator';
  if (condition === 'timeout_only') return 'its time; no signal will do';
  const [[kind, of]] = Object.entries(condition);
  const named = (name) => (name ? `the signal “${name}”` : 'any signal');
  switch (kind) {
    case 'single': return `${named(of.signal)} at ${of.waitpoint}`;
    case 'count': return countWords(of, named(of.signal));
    case 'all_of': return of.map(conditionWords).join(', and ');
    case 'approval': return `${count(of.needed, 'approval')} at ${of.waitpoint}`;
    default: return words(kind);
  }
}

const untilWords = (s) => (s.timeout_at ? [when(s.timeout_at), ` ${THEN[s.timeout_behavior] ?? words(s.timeout_behavior)}`]
  : ['no time limit']);

// Marks that turn the direction of text could make a person read something else.
const visible = (text) => text.replace(/[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** JSON with line breaks, token by token: reading and writing it would lose keys that occur twice. */
function indented(json) {
  let [out, depth] = ['', 0];
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [token] of json.matchAll(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if ('{['.includes(token)) { depth += 1; out += token + line(); }
    else if (token === ',') out += token + line();
    else if (token === ':') out += ': ';
    else if ('}]'.includes(token)) {
      depth -= 1;
      out = out.trimEnd();
      out += '{['.includes(out.at(-1)) ? token : line() + token;
    } else out += token;
  }
  return out;
}

function subjectBody(text) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON: shown as it is.
  }
  if (value !== null && typeof value === 'object') return jsonBlock(visible(indented(text)));
  // A plain text is written as a JSON string by some.
  return el('pre', { class: 'subject', tabindex: 0 }, visible(typeof value === 'string' ? value : text));
}

// ---- Sending -----------------------------------------------------------------------------------

// Where storage is forbidden, the name lasts as long as the page.
const me = () => stored('localStorage', 'ff-name') ?? me.kept ?? '';

function remember(name) {
  me.kept = name;
  stored('localStorage', 'ff-name', name);
}

const executionPath = (id) => `/v1/executions/${encodeURIComponent(id)}`;

/** What a form sends, by what it is for: the route, the body, and what to tell afterwards. */
const ANSWERS = {
  decide({ dataset, elements }, button) {
    remember(elements.by.value.trim());
    const body = { word: button.value, by: me(), waitpoint_id: dataset.waitpoint };
    if (dataset.subject) body.subject = dataset.subject;
    if (elements.comment.value.trim()) body.comment = elements.comment.value.trim();
    return { path: 'decisions', body, done: `${me()} ${button.value} ${dataset.name}` };
  },
  signal({ dataset, elements }) {
    const name = elements.signal_name.value.trim();
    const body = {
      waitpoint_id: dataset.waitpoint, signal_name: name, signal_category: 'operator', source_type: 'person',
      source_identity: elements.by.value.trim(),
    };
    if (body.source_identity) remember(body.source_identity);
    const payload = elements.payload.value.trim();
    if (payload) body.payload = payloadOf(payload);
    return { path: 'signals', body, done: `“${name}” was sent to ${dataset.name}` };
  },
  resume({ elements, dataset }) {
    const body = { reason: elements.reason.value.trim(), suspension_id: dataset.suspension };
    return { path: 'resume', body, done: 'It goes on' };
  },
};

function payloadOf(text) {
  try {
    return JSON.parse(text, exactly);
  } catch (error) {
    throw new Problem(0, { code: 'not_json', detail: `The payload is not JSON: ${error.message}`, hint: 'A text needs quotes: "like this".' });
  }
}

async function answer(event) {
  const form = event.target.closest('form[data-answer]');
  if (!form) return;
  event.preventDefault();
  const { key, answer: how, execution } = form.dataset;
  if (forms.get(key)?.busy) return;
  try {
    if (performance.now() < movedAt + MOVED_MS) {
      throw new Problem(0, { code: 'moved', detail: 'The list moved while you pressed. Look again, and press again.' });
    }
    const { path, body, done } = ANSWERS[how](form, event.submitter);
    forms.set(key, { busy: true });
    render();
    tell(done, await post(`${executionPath(execution)}/${path}`, body), key, how);
    form.reset();
  } catch (problem) {
    forms.set(key, { problem });
  }
  render();
  refreshSoon();
}

/** Tells what became of it: below the form if it did not count, else for the whole page. */
function tell(done, { status, effect }, key, how) {
  forms.delete(key);
  const ignored = effect?.startsWith('signal_ignored') || effect === 'appended_to_waitpoint_duplicate';
  if (status === 'duplicate' || ignored) {
    const detail = status === 'duplicate' ? 'That was said before; the first word stands.'
      : effect === 'appended_to_waitpoint_duplicate' ? 'It was kept, but it does not count: who decides says one word, the first.'
        : how === 'decide' ? `It was kept, but it does not count: ${me()} is not among those who may decide.`
          : `It was kept, but it does not count: ${effectWord(effect)}.`;
    forms.set(key, { problem: new Problem(0, { code: 'not_counted', detail }) });
    return;
  }
  said = { text: effect ? `${done}: ${effectWord(effect)}.` : `${done}.`, until: performance.now() + SAID_MS };
}

function renderSaid() {
  if (said && performance.now() > said.until) said = null;
  // It stays in the document, so that it is read aloud when it changes.
  $('said').classList.toggle('is-silent', !said);
  if ($('said').textContent !== (said?.text ?? '')) $('said').textContent = said?.text ?? '';
}

// ---- Forms -------------------------------------------------------------------------------------

/** A form of which only buttons that are seen send it: Enter would press the first, which is off. */
function answerForm(how, key, props, ...children) {
  const { busy, problem } = forms.get(key) ?? {};
  return el('form', { class: `answer answer-${how}`, 'data-key': key, 'data-answer': how, autocomplete: 'off', ...props },
    el('button', { type: 'submit', disabled: '', hidden: '' }), ...children,
    busy ? el('p', { class: 'outcome muted', role: 'status' }, 'Sending…') : null,
    problem ? el('p', { class: 'outcome refused', role: 'alert' }, el('b', {}, problem.message.replace(/[.!?]?$/, '.')), problem.hint ? ` ${problem.hint}` : '') : null);
}

const field = (label, props, tag = 'input') => el('label', {}, el('span', {}, label), el(tag, { spellcheck: 'false', ...props }));
const sendButton = (key, text, props) =>
  el('button', { type: 'submit', disabled: forms.get(key)?.busy ? '' : null, ...props }, text);
const choices = (id, names) => (id ? el('datalist', { id }, names.map((value) => el('option', { value }))) : null);

function decisionForm(point) {
  const { approval } = point;
  const key = `decide ${point.waitpoint_id}`;
  const list = approval.by.length ? `by-${point.waitpoint_id}` : null;
  return answerForm('decide', key, {
    'data-execution': point.execution_id, 'data-waitpoint': point.waitpoint_id, 'data-name': point.waitpoint_key,
    'data-subject': approval.subject_digest,
  }, field('Your name', { name: 'by', required: '', maxlength: 256, value: me(), list }), choices(list, approval.by),
  field('Comment', { name: 'comment', placeholder: 'optional' }),
  el('span', { class: 'buttons' },
    sendButton(key, 'Approve', { name: 'word', value: 'approved', class: 'approve' }),
    sendButton(key, 'Reject', { name: 'word', value: 'rejected', class: 'reject' })));
}

function signalForm(point) {
  const key = `signal ${point.waitpoint_id}`;
  const names = point.required_signal_names;
  const list = names.length > 1 ? `names-${point.waitpoint_id}` : null;
  return answerForm('signal', key, {
    'data-execution': point.execution_id, 'data-waitpoint': point.waitpoint_id, 'data-name': point.waitpoint_key,
  }, field('Signal', { name: 'signal_name', required: '', maxlength: 256, value: names[0] ?? '', list, placeholder: 'its name' }),
  choices(list, names),
  field('From', { name: 'by', required: '', maxlength: 256, value: me(), placeholder: 'your name' }),
  field('Payload', { name: 'payload', rows: 3, placeholder: 'optional, JSON such as {"paid": true}' }, 'textarea'),
  el('span', { class: 'buttons' }, sendButton(key, 'Send', { class: 'primary' })));
}

function resumeForm(s) {
  const key = `resume ${s.suspension_id}`;
  return answerForm('resume', key, { 'data-execution': s.execution_id, 'data-suspension': s.suspension_id },
    field('Reason', { name: 'reason', required: '', maxlength: 4096, placeholder: 'why it need not wait' }),
    el('span', { class: 'buttons' }, sendButton(key, 'Resume', {})));
}

// ---- What is asked -----------------------------------------------------------------------------

const isAsked = (s) => s.resume_condition !== 'timeout_only' || s.reason === 'waiting_for_operator_review';
const wantsOperator = (s) => s.resume_condition === 'operator_only' || s.reason === 'waiting_for_operator_review';

/** The keys of the waitpoints that a condition looks at, in its order. */
function keysOf(condition) {
  if (typeof condition === 'string') return [];
  const [[kind, of]] = Object.entries(condition);
  if (kind === 'all_of') return [...new Set(of.flatMap(keysOf))];
  return of.waitpoints ?? [of.waitpoint];
}

/** What an open suspension asks for, each with the form that answers it. */
function asks(s, points) {
  const open = new Map(points.filter(({ state }) => state === 'active').map((point) => [point.waitpoint_key, point]));
  return keysOf(s.resume_condition).map((key) => open.get(key)).filter(Boolean).map((point) =>
    el('div', { class: 'ask', 'data-key': point.waitpoint_id }, point.approval ? decision(point) : signalWanted(point)));
}

const letGoOn = (title, s) =>
  el('div', { class: 'ask', 'data-key': 'operator' }, el('h3', {}, title), resumeForm(s));

function decision(point) {
  const { needed, by, not_by: notBy, subject, subject_digest: digest, approved_by: approved } = point.approval;
  const who = [by.length ? `${listed(by, 'or')} may decide` : 'anybody may decide', notBy ? `but not ${notBy}` : ''];
  return [
    el('h3', {}, point.waitpoint_key),
    subject === null ? null : signed(el, 'div', `subject ${point.waitpoint_id}`, digest ?? subject, () => [{}, subjectBody(subject)]),
    el('p', { class: 'tally' }, el('b', {}, `${approved.length} of ${needed}`), ' approved',
      approved.length ? [': ', el('b', {}, approved.join(', '))] : '', el('small', {}, ` · ${who.filter(Boolean).join(', ')}`)),
    decisionForm(point)];
}

function signalWanted(point) {
  const names = point.required_signal_names;
  const came = point.signal_count ? ` · ${whole.format(point.signal_count)} came, ${whole.format(point.matched_signal_count)} of them count` : '';
  return [
    el('p', { class: 'tally' }, el('b', {}, point.waitpoint_key), ' wants ', names.length ? names.map((name, i) => [i ? ' or ' : '', el('b', {}, name)]).flat() : el('b', {}, 'any signal'),
      el('small', {}, came)),
    el('details', { class: 'send', 'data-key': 'send' }, el('summary', {}, 'Send a signal'), signalForm(point))];
}

// ---- Inbox -------------------------------------------------------------------------------------

async function loadInbox(signal) {
  const [{ suspended, next }, { waitpoints, next: more }] = await Promise.all([
    get(`/v1/suspended?limit=${rowsWanted}`, signal), get(`/v1/waitpoints?limit=${WAITPOINTS_MAX}`, signal)]);
  const asked = suspended.filter(isAsked);
  const strangers = asked.map((s) => s.execution_id).filter((id) => !known.has(id)).slice(0, LOOKUPS_MAX);
  if (known.size > KNOWN_MAX) known.clear();
  // What is gone meanwhile leaves the inbox with the next refresh.
  await Promise.all(strangers.map(async (id) => {
    const x = await get(executionPath(id), signal).catch(() => null);
    if (x) known.set(id, x);
  }));
  data.inbox = { asked, next, more, points: Map.groupBy(waitpoints, (point) => point.execution_id) };
  data.waiting = { n: asked.length, more: Boolean(next) };
}

/** How many wait, for the navigation. Views that do not need it go on without. */
async function loadWaiting(signal) {
  if (route.view === 'inbox' || performance.now() < (loadWaiting.notBefore ?? 0)) return;
  const began = performance.now();
  const page = await get(`/v1/suspended?limit=${COUNTED_MAX}`, signal).catch(() => null);
  if (page) data.waiting = { n: page.suspended.filter(isAsked).length, more: Boolean(page.next) };
  loadWaiting.notBefore = performance.now() + Math.max(POLL_MS - REFRESH_GAP_MS, 50 * (performance.now() - began));
}

function renderWaiting() {
  const { n, more } = data.waiting ?? { n: 0 };
  $('inbox-count').hidden = !n;
  $('inbox-count').textContent = n ? whole.format(n) + (more ? '+' : '') : '';
}

/** Draws the inbox; answers whether the problem, if there is one, stands in its place. */
function renderInbox() {
  const { inbox } = data;
  document.title = `${inbox?.asked.length ? `(${inbox.asked.length}) ` : ''}Waiting for people · FlowFabric`;
  const instead = isRefused() || (!inbox && data.problem);
  const cards = instead ? [] : (inbox?.asked ?? []).map(inboxCard);
  const staying = new Set(cards.map(keyOf));
  if ([...$('inbox').children].some((card) => !staying.has(keyOf(card)))) movedAt = performance.now();
  show($('inbox'), cards);
  show($('inbox-foot'), instead ? problemCard(data.problem) : inboxFoot(inbox));
  return instead;
}

function inboxFoot(inbox) {
  if (!inbox) return el('p', { class: 'muted center' }, 'Loading…');
  if (inbox.asked.length === 0 && !inbox.next) return el('div', { class: 'card pad' }, template('nobody'));
  return listEnd(inbox.asked.length, inbox.next, 'execution', 'longest waiting');
}

function inboxCard(s) {
  const { points, more } = data.inbox;
  const id = s.execution_id;
  const x = known.get(id);
  const href = executionHref(id);
  const own = asks(s, points.get(id) ?? []);
  const tags = Object.entries(x?.tags ?? {}).map(([key, value]) => `${key}:${value}`).join('  ');
  return el('article', { class: 'card inbox-card is-suspended', 'data-key': id },
    el('header', {},
      el('div', {},
        el('a', { class: 'kind', href }, x?.execution_kind ?? shortId(id)),
        el('span', { class: 'under' }, el('code', { title: id }, shortId(id)), copyButton(id, 'the id'),
          x?.flow_id ? el('a', { class: 'of-flow', href: flowHref(x.flow_id), title: 'The flow it belongs to' }, x.node ?? 'in a flow') : null,
          el('span', { class: 'tags-line', title: tags }, [x?.lane_id, tags].filter(Boolean).join('  ')))),
      el('div', { class: 'wait-times' },
        el('span', { class: 'state is-suspended' }, el('i'), words(s.reason)),
        el('small', {}, 'asked ', when(s.suspended_at), ' · ', untilWords(s)))),
    own, own.length > 1 ? el('p', { class: 'whole' }, `In all it waits for ${conditionWords(s.resume_condition)}.`) : null,
    wantsOperator(s) ? letGoOn('An operator may let it go on', s) : null,
    own.length === 0 && more && !wantsOperator(s) ? el('p', { class: 'whole' }, el('a', { href }, 'Open it to answer.')) : null);
}

// ---- One execution -----------------------------------------------------------------------------

/** What it waits for or waited for last, and what came; nothing is asked for one that never waited. */
async function loadWaits(history, signal) {
  const { snapshot: x, events, steps, more } = history;
  const waited = x.public_state === 'suspended' || more || events.some(({ event }) => event === 'suspended' || event === 'signal')
    || steps.some(({ kind }) => kind === 'wait' || kind === 'waitpoint');
  if (!waited) return { suspension: null, signals: [], points: [], next: null };
  const path = executionPath(x.execution_id);
  const [{ suspension }, { signals, next }, { waitpoints: points }] = await Promise.all([
    get(`${path}/suspension`, signal), get(`${path}/signals?limit=${SIGNALS_MAX}`, signal),
    isTerminal(x) ? { waitpoints: [] } : get(`${path}/waitpoints?limit=${WAITPOINTS_MAX}`, signal)]);
  return { suspension, signals, points, next };
}

function waitSection({ snapshot: x, waits: { suspension: s, points } }) {
  const pending = points.filter((point) => point.state === 'pending');
  const open = s?.open && x.public_state === 'suspended';
  const kept = pending.map((point) => el('p', { class: 'whole', 'data-key': point.waitpoint_id },
    'Signals to ', el('b', {}, point.waitpoint_key), ` are kept until it waits there: ${count(point.signal_count, 'signal')} so far`,
    point.expires_at ? [', closes ', when(point.expires_at)] : '', '.'));
  if (!open && !kept.length) return null;
  return el('section', { class: 'card waits is-suspended', 'data-key': 'Waits' },
    el('h2', { class: 'card-title' }, open ? 'Waits' : 'Open waitpoints'),
    open ? [el('dl', { class: 'facts' }, fact('For', conditionWords(s.resume_condition)), fact('Since', when(s.suspended_at)),
      fact('Until', untilWords(s)), fact('Why', words(s.reason), `asked by ${words(s.requested_by)}`)),
    ...asks(s, points), letGoOn('Let it go on, whatever it waits for', s)] : null,
    kept);
}

function lastWaitSection({ snapshot: x, waits: { suspension: s } }) {
  if (!s || (s.open && x.public_state === 'suspended')) return null;
  const ended = s.closed_at ?? x.last_mutation_at;
  return section('Last wait', 0, el('dl', { class: 'facts two' },
    fact('For', conditionWords(s.resume_condition)), fact('Why', words(s.reason)),
    fact('Lasted', duration(ended - s.suspended_at)), fact('Over', when(ended), closedWord(s))));
}

function signalsSection({ waits: { signals, next } }) {
  if (!signals.length) return null;
  return section('Signals', signals.length, el('div', { class: 'lines', 'data-key': 'lines' }, signals.map(signalLine)),
    next ? none(`The first ${whole.format(SIGNALS_MAX)} are shown.`) : null);
}

const carried = (signal) => (signal.encoding === 'text' && signal.payload_base64 ? plainText(signal.payload_base64)
  : 'payload' in signal ? JSON.stringify(signal.payload)
    : signal.payload_base64 ? `${bytes(base64Size(signal.payload_base64))} binary` : '');
const plainText = (base64) => new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));

function signalLine(signal) {
  const key = `signal-${signal.number}`;
  const open = $(key)?.open;
  const text = carried(signal);
  const sign = [route.id, signal.effect, relative(signal.accepted_at), open].join();
  return signed(el, 'details', key, sign, () => [{ id: key, class: `line step signal ${signalTone(signal)}` },
    el('summary', {},
      el('i', { class: 'diamond' }),
      el('span', { class: 'name clip', title: signal.signal_name }, signal.signal_name,
        el('small', {}, signal.source_identity ? `from ${signal.source_identity}` : signal.source_type)),
      el('span', { class: 'effect clip' }, effectWord(signal.effect)),
      el('span', { class: 'at' }, when(signal.accepted_at)),
      el('span', { class: 'preview clip' }, shorten(visible(text), 120))),
    open ? el('div', { class: 'payload' }, signal.encoding === 'text' || !text ? el('p', { class: 'subject' }, visible(text) || 'It carries nothing.')
      : payloadBody(signal, 'payload', `${key} ${route.id}`)) : null]);
}

const signalTone = ({ effect }) => (effect === 'resume_condition_satisfied' ? 'is-completed'
  : effect.startsWith('signal_ignored') ? 'is-cancelled' : 'is-suspended');

// ---- Steps -------------------------------------------------------------------------------------

// A wait is two steps: the question names its suspension, the answer how it ended.
const isQuestion = (step) => step.kind === 'wait' && Boolean(step.result?.suspension_id);
const answerTo = (step, steps) => steps.find((each) => each.kind === 'wait' && each.operation === step.operation && each.result?.how);

/** Until when a question stood open: until it was answered, or else as long as it may still be. */
function questionEnd(step, steps, { suspension: s }) {
  if (s?.suspension_id === step.result.suspension_id && s.closed_at) return s.closed_at;
  return answerTo(step, steps)?.at ?? now();
}

/** When an attempt waited, as events tell it: workers that record no steps wait, too. */
function restsOf({ events, snapshot: x }, attempt) {
  const goesOn = (e) => e.event === 'resumed' || e.event === 'completion' || e.effect === 'resume_condition_satisfied';
  const began = events.filter((e) => e.event === 'suspended' && e.attempt_index === attempt.index);
  return began.map(({ at: from }) => {
    const over = events.find((e) => e.at >= from && goesOn(e))?.at;
    return { kind: 'suspended', from, to: over ?? (x.public_state === 'suspended' ? now() : from) };
  });
}

function waitPreview({ result }) {
  if (!result?.how) return 'asked, then waited';
  // What goes on then is told so by a signal of its own.
  if (result.how === 'timed_out_auto_resume') return CLOSED[result.how];
  const voices = (result.signals ?? []).map((s) => (s.source_identity ? `${s.signal_name} from ${s.source_identity}` : s.signal_name));
  return voices.join(', ') || CLOSED[result.how] || words(result.how);
}
