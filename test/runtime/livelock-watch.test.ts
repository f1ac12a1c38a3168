/** The fold over a run's frames: a task that is delegated back, and what has no name or no turn of its own. */
import t from 'tap'
import type { MessageType } from '../../src/index.ts'
import { END, idOf, REQUEST, recipientOf, SEND, writeId } from '../../src/mailbox/frame.ts'
import { LivelockWatch } from '../../src/runtime/observers/progress.ts'
import type { Sign } from '../../src/runtime/observers/signs.ts'
import { LIVELOCK_BOUNDS } from '../../src/runtime/settings/agent-settings.ts'
import { ANN, BOB, directory, frameOf } from '../mailbox/frames.ts'

const SCRIPT = 2
const CLEO = 5

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
    writeId(memory, 0, [messages, 0, 0, 0])
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
