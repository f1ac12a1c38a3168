/** Options that ask for nothing, and a verb whose function stays in its thread. */
import t from 'tap'
import { stage } from './helpers.ts'

t.test('an option that asks for nothing is fine', async (t) => {
  const { play } = stage(t)
  const asksNothing = { retries: 0, idempotent: false, polling: false }
  t.match(await play((context) => context.request('bob', 'hi', asksNothing)), { content: 'bob heard hi' })
})

t.test('blackboard.subscribe in a turn needs a pattern and a function', async (t) => {
  const { refusal } = stage(t)
  for (const [pattern, callback] of [
    ['k', undefined],
    ['k*', () => {}],
    ['', () => {}],
    [7, () => {}],
  ]) {
    const error = await refusal((context) => context.blackboard.subscribe(pattern as never, callback as never))
    t.equal(error.code, 'MESSAGE_REJECTED')
  }
})
