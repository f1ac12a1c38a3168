/** The signs of a livelock and groups of waits as functions: what counts, what comes again, and what does not. */
import t from 'tap'
import { cycleIn, NO_SEQUENCE, type Sequence, withKey } from '../../src/actors/definition/assignment.ts'
import type { MessageType } from '../../src/index.ts'
import { END, ID, idOf, REQUEST, recipientOf, SEND } from '../../src/mailbox/frame.ts'
import { WaitingGroups } from '../../src/runtime/host/agent.ts'
import { LivelockWatch, News } from '../../src/runtime/observers/livelock.ts'
import {
  type Conversation,
  continued,
  exchanges,
  isDelegatedBack,
  mostErrors,
  mostExchanges,
  type NextMessage,
  NO_ROUNDS,
  type Repetition,
  type Rounds,
  repeated,
  roundsAnew,
  type Sign,
  taskClosed,
  taskOpened,
} from '../../src/runtime/observers/livelock-signs.ts'
import { LIVELOCK_BOUNDS } from '../../src/runtime/settings/agent-settings.ts'
import { ANN, BOB, directory, frameOf } from '../mailbox/frames.ts'

// The signs of a livelock and groups of waits as functions: what counts, what does not, and from when on it counts
// anew.

t.test('the bounds for errors and for A-B-A-B follow from that for repeats', async (t) => {
  t.same([mostErrors(LIVELOCK_BOUNDS), mostExchanges(LIVELOCK_BOUNDS)], [18, 36])
  const patient = { ...LIVELOCK_BOUNDS, maxRepeats: 10 }
  t.same([mostErrors(patient), mostExchanges(patient)], [8, 15])
})

const moment = (seq: number) => ({ seq, at: seq })

/** Attempts as [asked, answered, outcome]; each place in the log is a moment of its own. */
function timesOf(...attempts: [asked: number, answered: number, outcome: string][]): number {
  let last: Repetition | undefined
  for (const [asked, answered, outcome] of attempts)
    last = repeated(last, { asked: moment(asked), answered: moment(answered), outcome })
  return last?.times ?? 0
}

t.test('the same outcome in a row is a repetition, another one begins a new count', async (t) => {
  t.equal(timesOf([1, 2, 'no'], [3, 4, 'no'], [5, 6, 'no']), 3)
  t.equal(timesOf([1, 2, 'no'], [3, 4, 'no'], [5, 6, 'yes']), 1)
  t.equal(timesOf([1, 2, 'no'], [3, 4, 'yes'], [5, 6, 'no']), 1)
})

t.test('what is asked at the same time does not repeat each other', async (t) => {
  t.equal(timesOf([1, 11, 'no'], [2, 12, 'no'], [3, 13, 'no'], [4, 14, 'no']), 1)
  t.equal(timesOf([1, 11, 'no'], [2, 12, 'no'], [13, 21, 'no'], [14, 22, 'no']), 2, 'two rounds of two')
})

const CLEO = 5

function heard(before: Conversation | undefined, from: number, to: number, fields: Partial<NextMessage> = {}) {
  return continued(before, {
    stretch: 0,
    threadId: undefined,
    delegates: undefined,
    byCode: false,
    ...fields,
    from,
    to,
  })
}

function conversation(...way: number[]): Conversation {
  let last: Conversation | undefined
  for (let i = 1; i < way.length; i++) last = heard(last, way[i - 1]!, way[i]!)
  return last!
}

t.test('a conversation counts its messages, and knows who took part', async (t) => {
  t.match(conversation(ANN, BOB, CLEO, ANN, BOB), { messages: 4, parties: [ANN, BOB, CLEO] })
})

t.test('two that write to each other and back are counted, until somebody else comes between', async (t) => {
  t.equal(exchanges(conversation(ANN, BOB, ANN, BOB, ANN)), 2)
  t.equal(exchanges(conversation(ANN, BOB, ANN, CLEO)), 0)
  t.equal(exchanges(conversation(CLEO, ANN, BOB, ANN)), 1)
  t.equal(exchanges(heard(conversation(ANN, BOB), ANN, BOB)), 0, 'who writes twice was not answered')
})

t.test('progress and another thread begin a new conversation', async (t) => {
  const talk = conversation(ANN, BOB, ANN)
  t.match(heard(talk, ANN, BOB, { stretch: 1 }), { messages: 1, alternating: 1, parties: [ANN, BOB] })
  const other = heard(talk, ANN, BOB, { threadId: 'other' })
  t.match(other, { messages: 1, threadId: 'other' })
  t.match(heard(other, BOB, ANN), { messages: 2, threadId: 'other' }, 'an answer stays in its thread')
})

t.test('a task that is delegated back to one that had it is known, also over progress', async (t) => {
  const delegates = { delegates: 'dig' }
  const toBob = heard(conversation(CLEO, ANN), ANN, BOB, delegates)
  t.notOk(isDelegatedBack(toBob))
  t.notOk(isDelegatedBack(heard(toBob, BOB, CLEO, delegates)), 'who asked for it did not have it')
  t.ok(isDelegatedBack(heard(toBob, BOB, ANN, delegates)))
  t.ok(isDelegatedBack(heard(toBob, BOB, ANN, { delegates: 'dig', stretch: 1 })))
  t.notOk(isDelegatedBack(heard(toBob, BOB, ANN)), 'a question is no delegation')
})

t.test('a task that comes back in other words is delegated back at the third time', async (t) => {
  let task = heard(undefined, ANN, BOB, { delegates: 'draft 0' })
  for (let n = 1; n < 6; n++) {
    t.equal(isDelegatedBack(task), false, `draft ${n - 1}`)
    task =
      n % 2 ? heard(task, BOB, ANN, { delegates: `draft ${n}` }) : heard(task, ANN, BOB, { delegates: `draft ${n}` })
  }
  t.ok(isDelegatedBack(task))
})

t.test('a retry after a longer pause than all before does not count, and one after an equal pause does', async (t) => {
  const timesAfter = (...pauses: number[]) => {
    let last: Repetition | undefined
    let at = 0
    for (const [seq, pause] of [0, ...pauses].entries()) {
      at += pause
      last = repeated(last, { asked: { seq: 2 * seq, at }, answered: { seq: 2 * seq + 1, at }, outcome: 'down' })
    }
    return last?.times
  }
  t.equal(timesAfter(100, 200, 400, 800, 1_600), 2)
  t.equal(timesAfter(100, 100, 100, 100, 100), 6)
  t.equal(timesAfter(0, 0, 0), 4)
  t.equal(timesAfter(100, 200, 200, 200), 4, 'at its cap')
})

/** Each round asks the same agent; whether something new came in it. */
function stalled(...moved: boolean[]): number {
  let rounds: Rounds = NO_ROUNDS
  for (const isNew of moved) {
    rounds = taskOpened(rounds, 'ann')
    if (isNew) rounds = roundsAnew(rounds)
    rounds = taskClosed(rounds)
  }
  return rounds.stalled
}

t.test('rounds without progress are counted from the last one that had some', async (t) => {
  t.equal(stalled(true, false, false), 2)
  t.equal(stalled(false, false, true), 0)
  t.equal(stalled(false, true, false), 1)
})

t.test('a round is over when none of its tasks is open', async (t) => {
  let rounds = taskOpened(taskOpened(NO_ROUNDS, 'ann'), 'bob')
  rounds = taskClosed(rounds)
  t.equal(rounds.stalled, 0)
  rounds = taskClosed(taskClosed(taskOpened(rounds, 'ann')))
  t.match(rounds, { open: 0, stalled: 1, agents: ['ann', 'bob'] })
  rounds = taskClosed(taskClosed(taskOpened(roundsAnew(taskOpened(rounds, 'ann')), 'bob')))
  t.equal(rounds.stalled, 0, 'progress within it counts, also if it was not the last thing')
})

t.test('progress between two rounds takes those before it back', async (t) => {
  const rounds = roundsAnew(taskClosed(taskOpened(NO_ROUNDS, 'ann')))
  t.match(taskClosed(taskOpened(rounds, 'ann')), { stalled: 1 })
})

t.test('news is what was not there before, by all of its parts', async (t) => {
  const news = new News()
  t.ok(news.isNew('a', 'bc'))
  t.notOk(news.isNew('a', 'bc'))
  t.ok(news.isNew('ab', 'c'))
})

t.test('what was seen is bounded: the oldest of more than 10,000 counts as new again', async (t) => {
  const news = new News()
  for (let n = 0; n < 10_000; n++) news.isNew(`${n}`)
  t.notOk(news.isNew('0'))
  t.ok(news.isNew('10000'))
  t.ok(news.isNew('0'))
  t.notOk(news.isNew('10000'))
})

// The fold over a run's frames: a task that is delegated back, and what has no name or no turn of its own.

const SCRIPT = 2

/** Frames one after the other; each message is handled by the turn of its recipient that has its number. */
function watching() {
  const signs: Sign[] = []
  const ids = new Map<string, string>()
  const watch = new LivelockWatch(LIVELOCK_BOUNDS, {
    name: (index) => directory.name(index),
    isModel: () => false,
    recipientOf,
    messageOf: (agent, turn) => ids.get(`${agent} ${turn}`),
    progress: () => {},
    found: (sign) => {
      signs.push(sign)
      watch.begin()
    },
  })
  let messages = 0
  /** From the turn of one agent to another, who handles it in the turn of the number that is returned. */
  const says = (from: number, turn: number, to: number, type: MessageType, kind = REQUEST, text?: string): number => {
    messages += 1
    const content = text ?? `${messages}`
    const { memory } = frameOf({ kind, type, sender: from, recipient: to, turn, correlation: messages, content })
    memory.i32.set([messages, 0, 0, 0], ID)
    ids.set(`${to} ${messages}`, idOf(memory, 0))
    watch.frame(memory, 0, messages)
    return messages
  }
  const answers = (from: number, turn: number, to: number, correlation: number, content = 'ok') => {
    messages += 1
    const { memory } = frameOf({ kind: END, sender: from, recipient: to, turn, correlation, content })
    watch.frame(memory, 0, messages)
  }
  return { signs, says, answers }
}

t.test('rule 29: a task that is delegated back to one that had it is a sign', async (t) => {
  const { signs, says } = watching()
  const task = says(SCRIPT, 1, ANN, 'request')
  const delegated = says(ANN, task, BOB, 'delegate', REQUEST, 'dig')
  t.same(signs, [])
  says(BOB, delegated, ANN, 'delegate', REQUEST, 'dig')
  t.match(signs, [
    {
      agents: ['ann', 'bob'],
      evidence: /^a task was delegated back to "ann", who had it: "ann" -> "bob" -> "ann" \(message /,
    },
  ])
  t.equal(signs.length, 1)
})

t.test('who asks a question before it delegates still has the task of the one before', async (t) => {
  const { signs, says, answers } = watching()
  const delegated = says(ANN, says(SCRIPT, 1, ANN, 'request'), BOB, 'delegate', REQUEST, 'dig')
  const question = says(BOB, delegated, ANN, 'request')
  answers(ANN, question, BOB, question)
  t.same(signs, [], 'a question back is no delegation')
  says(BOB, delegated, ANN, 'delegate', REQUEST, 'dig')
  t.equal(signs.length, 1)
})

t.test('the next sign of delegation takes a whole way again', async (t) => {
  const { signs, says } = watching()
  let turn = says(SCRIPT, 1, ANN, 'request')
  for (let n = 0; n < 6; n++)
    turn = n % 2 ? says(BOB, turn, ANN, 'delegate', REQUEST, 'dig') : says(ANN, turn, BOB, 'delegate', REQUEST, 'dig')
  t.equal(signs.length, 3, 'after 2, 4 and 6 delegations')
})

t.test('another task of the same agents is no delegation back', async (t) => {
  const { signs, says } = watching()
  for (let n = 0; n < 5; n++) {
    says(ANN, says(SCRIPT, 1, ANN, 'request'), BOB, 'delegate', REQUEST, 'dig')
    says(BOB, says(SCRIPT, 1, BOB, 'request'), ANN, 'delegate', REQUEST, 'dig')
  }
  t.same(signs, [])
})

t.test('a conversation counts what its answers took: the questions that were asked for them', async (t) => {
  const { signs, says, answers } = watching()
  const task = says(SCRIPT, 1, ANN, 'request')
  for (let n = 0; n < 40; n++) {
    const question = says(ANN, task, BOB, 'request', REQUEST, 'may I?')
    const further = says(BOB, question, CLEO, 'request', REQUEST, 'may she?')
    answers(CLEO, further, BOB, further, n % 2 ? 'yes' : 'no')
    answers(BOB, question, ANN, question, n % 2 ? 'yes' : 'no')
  }
  t.match(signs, [{ agents: ['bob', 'ann', '#5'], evidence: /^100 messages without progress/ }])
})

t.test('messages of no turn begin a conversation of their own', async (t) => {
  const { signs, says } = watching()
  for (let n = 0; n < 200; n++) says(n % 2 ? ANN : BOB, 0, n % 2 ? BOB : ANN, 'request', SEND)
  t.same(signs, [])
})

// Groups of requests that a turn waits for together: how many answers each still needs.

const TURN = 7

t.test('a group needs what its turn says, and a turn has several', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  groups.note(TURN, 2, 0, 1)
  groups.note(TURN + 1, 1, 2, 1)
  t.same([groups.of(TURN, 1), groups.of(TURN, 2), groups.of(TURN + 1, 1)], [{ need: 3 }, { need: 0 }, { need: 2 }])
  t.equal(groups.of(TURN, 0), undefined, 'a request that waits alone is in none')
  t.end()
})

t.test('a later group of a turn with the same number is another', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  const first = groups.of(TURN, 1)
  groups.note(TURN, 1, 2, 1)
  t.not(groups.of(TURN, 1), first, 'requests of the first are counted apart')
  t.same([first, groups.of(TURN, 1)], [{ need: 3 }, { need: 2 }])
  t.end()
})

t.test('a turn that comes again needs one answer more, with the requests that it has open', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  const open = groups.of(TURN, 1)
  groups.note(TURN, 1, 3, 2)
  t.equal(groups.of(TURN, 1), open)
  t.same(open, { need: 1 })
  groups.note(TURN, 2, 0, 2)
  t.same(groups.of(TURN, 2), { need: 0 }, 'all are needed all the same')
  t.end()
})

t.test('requests of an earlier process form one group that needs one answer, until the turn comes again', (t) => {
  const groups = new WaitingGroups()
  const restored = groups.restore(TURN, 1)
  t.equal(groups.restore(TURN, 1), restored)
  t.match(restored, { need: 1 })
  groups.note(TURN, 1, 0, 1)
  t.equal(groups.of(TURN, 1), restored)
  t.match(restored, { need: 0 })
  t.equal(groups.restore(TURN, 0), undefined)
  t.end()
})

t.test('a group that this process knows is not restored anew', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  t.same(groups.restore(TURN, 1), { need: 3 })
  t.end()
})

t.test('the groups of a turn that is over are forgotten, and no others', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  groups.note(TURN, 2, 3, 1)
  groups.note(TURN + 1, 1, 2, 1)
  groups.forget(TURN)
  t.same([groups.of(TURN, 1), groups.of(TURN, 2), groups.of(TURN + 1, 1)], [undefined, undefined, { need: 2 }])
  t.end()
})

// What comes again in a sequence: from one key to eight, and how often.

const sequenceOf = (keys: string): Sequence => [...keys].reduce((last, key) => withKey(last, key), NO_SEQUENCE)
const cycleOf = (keys: string, least = 3) => cycleIn(sequenceOf(keys), () => least)

t.test('the shortest cycle at the end of a sequence is found, and how often it came', async (t) => {
  t.same(cycleOf('xaaa'), { length: 1, times: 3 })
  t.same(cycleOf('ababab'), { length: 2, times: 3 })
  t.same(cycleOf('xxabcabcabc'), { length: 3, times: 3 })
  t.same(cycleOf('abcdefgh'.repeat(3)), { length: 8, times: 3 })
})

t.test('a cycle that is not whole yet, or was broken, is none', async (t) => {
  t.equal(cycleOf('aa'), undefined)
  t.equal(cycleOf('ababa'), undefined)
  t.equal(cycleOf('aaxaa'), undefined)
  t.equal(cycleOf('abcdefghi'.repeat(4)), undefined, 'of nine')
})

t.test('what is kept does not grow with the sequence', async (t) => {
  const { last, same } = sequenceOf('abc'.repeat(500))
  t.equal(last.length, 8)
  t.equal(same.length, 8)
})
