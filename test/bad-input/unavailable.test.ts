/** What the contract names and this version has not: one clear error for each, never an option or a verb that is ignored. */
import t, { type Test } from 'tap'
import type { DramatisError } from '../../src/index.ts'
import { refusalOf, stage, untyped } from './helpers.ts'

function isUnavailable(t: Pick<Test, 'equal'>, error: DramatisError, path: string): void {
  t.equal(error.code, 'CONFIGURATION', path)
  t.equal(error.details.path, path)
  t.equal(error.message.startsWith(`${path}: not available in this version`), true, error.message)
}

t.test('an option that asks for nothing is fine', async (t) => {
  const { play } = stage(t)
  const asksNothing = { retries: 0, idempotent: false, polling: false }
  t.match(await play((context) => context.request('bob', 'hi', asksNothing)), { content: 'bob heard hi' })
})

t.test('blackboard.subscribe in a turn says what to use in its place', async (t) => {
  const { refusal } = stage(t)
  const error = await refusal((context) => context.blackboard.subscribe('k', () => {}))
  t.equal(error.code, 'CONFIGURATION')
  t.match(error.message, /Available: context\.subscribe/)
})

t.test('methods of a team and a run', async (t) => {
  const { team: typed, isWell } = stage(t)
  const team = untyped(typed)
  const methods: Record<string, () => unknown> = {
    resume: () => team.resume('id'),
    reloadAgent: () => team.reloadAgent('bob'),
  }
  for (const [path, call] of Object.entries(methods)) isUnavailable(t, await refusalOf(call), path)
  t.same(
    typed.listAgents().map(({ name }) => name),
    ['ann', 'bob'],
  )
  t.ok(await isWell())
})
