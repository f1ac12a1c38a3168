/** Options that ask for nothing, and the one verb that a turn has no use for. */
import t from 'tap'
import { stage } from './helpers.ts'

t.test('an option that asks for nothing is fine', async (t) => {
  const { play } = stage(t)
  const asksNothing = { retries: 0, idempotent: false, polling: false }
  t.match(await play((context) => context.request('bob', 'hi', asksNothing)), { content: 'bob heard hi' })
})

t.test('blackboard.subscribe in a turn says what to use in its place', async (t) => {
  const { refusal } = stage(t)
  const error = await refusal((context) => context.blackboard.subscribe('k', () => {}))
  t.equal(error.code, 'CONFIGURATION')
  t.match(error.message, /Use context\.subscribe/)
})
