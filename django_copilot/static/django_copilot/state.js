/**
 * The panel's state, as a pure reducer: state and event in, new state out. Unchanged messages keep their identity.
 *
 * state    {conversationId, messages, busy, waiting, problem, view, conversations}
 * message  {role, text, results?, sent?, question?, action?, plan?, dropped?, withheld?, pending?, failed?}
 * problem  {status, code, detail, text}; text is what the person wrote and may send again
 */

export const initial = Object.freeze({
  conversationId: null,
  messages: [],
  busy: false, // a request of ours is on its way
  waiting: false, // the server still works on a turn that was started elsewhere
  problem: null,
  view: "chat",
  conversations: null,
});

function settled(messages) {
  return messages.map((message) => (message.pending ? { ...message, pending: false } : message));
}

// Words that have led to a plan are not offered to be sent again: what they ask for may be done.
function lastWords(messages) {
  const last = messages.findLast(({ role, plan }) => role === "user" || plan);
  return last?.role === "user" ? last.text : "";
}

const steps = {
  send(state, { text }) {
    const messages = [...state.messages, { role: "user", text, pending: true }];
    return { ...state, messages, busy: true, waiting: false, problem: null, view: "chat" };
  },
  resume(state) {
    return { ...state, busy: true, problem: null };
  },
  answer(state, { answer }) {
    const message = { role: "assistant", text: answer.reply ?? "", results: answer.results ?? [] };
    if (answer.sent) message.sent = answer.sent;
    if (answer.question) message.question = answer.question;
    if (answer.plan) message.plan = answer.plan;
    if (answer.action) Object.assign(message, { action: answer.action, dropped: answer.action.dropped ?? [] });
    return {
      ...state,
      conversationId: answer.conversationId ?? state.conversationId,
      messages: [...settled(state.messages), message],
      busy: false,
      problem: null,
    };
  },
  problem(state, { problem }) {
    // From 500 on a turn was opened and the server has kept the message; before that it never arrived.
    const kept = problem.status >= 500;
    const text = state.messages.find((message) => message.pending)?.text ?? "";
    const messages = kept
      ? state.messages.map((message) => (message.pending ? { ...message, pending: false, failed: true } : message))
      : state.messages.filter((message) => !message.pending);
    return {
      ...state,
      conversationId: problem.conversationId ?? state.conversationId,
      messages,
      busy: false,
      problem: { ...problem, text },
    };
  },
  opened(state, { conversation }) {
    const messages = conversation.messages ?? [];
    const turn = conversation.turn ?? null;
    const failed = turn?.state === "failed";
    return {
      ...initial,
      conversations: state.conversations,
      conversationId: conversation.conversationId,
      messages,
      waiting: turn?.state === "running",
      problem: failed ? { status: 500, code: turn.code, detail: turn.detail, text: lastWords(messages) } : null,
    };
  },
  fresh(state) {
    return { ...initial, conversations: state.conversations };
  },
  idle(state) {
    return { ...state, busy: false, waiting: false };
  },
  notice(state, { problem }) {
    return { ...state, problem: { text: "", ...problem } };
  },
  list(state, { conversations }) {
    return { ...state, conversations };
  },
  show(state, { view }) {
    return { ...state, view };
  },
  removed(state, { id }) {
    const conversations = state.conversations?.filter((one) => one.conversationId !== id) ?? null;
    if (state.conversationId !== id) return { ...state, conversations };
    return { ...initial, view: state.view, conversations };
  },
};

/** Give the state after an event; an unknown event is a mistake in the code and throws. */
export function reduce(state, event) {
  if (!Object.hasOwn(steps, event.type)) throw new Error(`unknown event ${event.type}`);
  return steps[event.type](state, event);
}

/** Say whether the last message asks something that can be answered now. */
export function openQuestion(state) {
  return state.busy || state.waiting ? null : (state.messages.at(-1)?.question ?? null);
}

/** Find the plan of an opened conversation that was decided and has had no answer yet. */
export function planToResume(messages) {
  const last = messages.findLast(({ role, plan }) => role === "user" || plan)?.plan;
  return last?.canContinue && last.state !== "expired" ? last : null;
}

/** Bring the answer to a question into the text of the next message; empty when nothing was chosen. */
export function answerText(values) {
  return values
    .map((value) => value.trim())
    .filter((value) => value !== "")
    .join(", ");
}
