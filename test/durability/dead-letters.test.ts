/** Dead letters of a team that goes on with the log of an earlier one. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/index.ts'
import { teamFacts } from '../../src/runtime/durability/team-facts.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/keeper.js', import.meta.url)

/** A team whose facts a test can see. */
class OpenTeam extends MultiAgentPattern<string> {
  get letters(): object[] {
    return [...teamFacts(this.supervisor, this.parts)].filter((fact) => fact.kind === 'letter')
  }

  get texts(): string[] {
    return this.deadLetters.list().map(({ message }) => message.content)
  }
}

async function teamOf(t: Test, path: string, more: Partial<MultiAgentPatternOptions> = {}) {
  const team = new OpenTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module })),
    stateManagement: { path },
    logger: silent,
    orchestration: {
      strategy: 'custom',
      name: 'a script',
      run: async (desk, query) => (await desk.request('ann', query)).content,
    },
    ...more,
  })
  t.teardown(() => team.close())
  await team.start()
  return team
}

/** Resolves when the team has that many dead letters. */
async function lettersOf(team: OpenTeam, count: number): Promise<void> {
  if (team.deadLetters.list().length === count) return
  await new Promise<void>((resolve) => {
    const events = team.events.subscribe(() => {
      if (team.deadLetters.list().length < count) return
      events.unsubscribe()
      resolve()
    })
  })
}

t.test('dead letters are there again, but for those that were sent again or discarded', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = await teamOf(t, path)
  for (const content of ['fail 1', 'fail 2', 'fail 3', 'fail 4'])
    await before.sendMessage({ recipient: 'ann', content })
  await lettersOf(before, 4)
  await t.rejects(before.sendMessage({ recipient: 'ann', content: 5 as unknown as string }), {
    code: 'MESSAGE_REJECTED',
  })
  const [first, second] = before.deadLetters.list()
  before.deadLetters.discard(first!.id)
  await before.deadLetters.replay(second!.id)
  t.equal((await before.execute('see state')).finalOutput, 'again ')
  t.same(before.texts, ['fail 3', 'fail 4', ''])
  const { letters } = before
  await before.close()

  const after = await teamOf(t, path)
  t.match(after.letters, letters)
  t.match(after.deadLetters.list()[0], { reason: 'failed', errors: [{ message: 'It does not work.' }] })
  t.match(after.health(), { deadLetters: 3, deadLettersForgotten: 0 })
  const [third, fourth] = after.deadLetters.list()
  await after.deadLetters.replay(third!.id)
  t.equal((await after.execute('see state')).finalOutput, 'again again ')
  after.deadLetters.discard(fourth!.id)
  await after.close()

  const last = await teamOf(t, path)
  t.same(last.texts, [''])
})

t.test('a letter that was sent again and waits for room when the process ends is sent once', async (t) => {
  const path = join(folderOf(t), 'log')
  const agents = [{ name: 'ann', module, communication: { mailboxCapacity: 1 } }]
  const before = await teamOf(t, path, { agents })
  await before.sendMessage({ recipient: 'ann', content: 'fail 1' })
  await lettersOf(before, 1)
  const [letter] = before.deadLetters.list()
  const asks = before.launch('ask now?', { runId: 'one' })
  for await (const { type } of asks.events()) if (type === 'question') break
  const refused = t.rejects(before.deadLetters.replay(letter!.id))
  await before.flush()
  t.same(before.texts, ['fail 1'], 'it stays until it is accepted')
  await before.close()
  await refused

  const after = await teamOf(t, path, { agents })
  t.same(after.texts, [])
  await after.getRun('one')!.answer(after.questions()[0]!.questionId, 'yes')
  await after.getRun('one')!.result
  t.equal((await after.execute('see state')).finalOutput, 'again ')
})
