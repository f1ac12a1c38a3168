/** The signs of a livelock as functions: what counts, what does not, and from when on it counts anew. */
import t from 'tap'
import { News } from '../../src/runtime/observers/progress.ts'
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
  taskClosed,
  taskOpened,
} from '../../src/runtime/observers/signs.ts'
import { LIVELOCK_BOUNDS } from '../../src/runtime/settings/agent-settings.ts'

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

const [ANN, BOB, CLEO] = [3, 4, 5]

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
