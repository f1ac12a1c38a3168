/** Rule 19: what a turn that gave its permit up would do by itself waits until it has one again. */
import t from 'tap'
import type { AgentContext, OrchestratorContext } from '../../src/actors/definition/context.ts'
import { leftovers } from './accounts.ts'
import { type Extras, gate, openTeam, outcomeOf, type Receive } from './teams.ts'

/** A script that asks the first agent, whose request takes the only permit from it. */
const one: Extras = { maxConcurrentAgents: 1 }

/** Works until it is let go, whatever its signal says. */
function holderOf(lines: string[]): { holder: Receive; open(): void } {
  const { opened, open } = gate()
  const holder = async () => {
    await opened
    lines.push('holder ends')
  }
  return { holder, open }
}

for (const concurrency of [1, 2]) {
  const roles = { asker: { concurrency }, manager: { concurrency, reentrancy: 'chain' as const } }

  t.test(
    `rule 19: a signal of the caller's ends its wait when there is a permit, at concurrency ${concurrency}`,
    async (t) => {
      const lines: string[] = []
      const { holder, open } = holderOf(lines)
      const given = new AbortController()
      const team = openTeam(
        t,
        {
          async asker(_message, context) {
            const { signal } = given
            await context.requestAny(['holder'], 'go', { signal }).catch(({ code }) => lines.push(`asker: ${code}`))
            await context.request('holder', 'go', { signal }).catch(({ code }) => lines.push(`asker: ${code}`))
          },
          holder,
        },
        { ...one, roles },
      )
      const run = team.execute('go')
      await team.clock.advance(10)
      given.abort()
      await team.clock.advance(10)
      t.same(lines, [])
      open()
      t.ok((await run).success)
      t.same(lines, ['holder ends', 'asker: CANCELLED', 'asker: CANCELLED'])
      t.same(leftovers(team.host), [])
    },
  )

  t.test(
    `rule 19: a turn is told to stop before the answers that waited with it, at concurrency ${concurrency}`,
    async (t) => {
      const lines: string[] = []
      const { holder, open } = holderOf(lines)
      const team = openTeam(
        t,
        {
          async asker(_message, context) {
            await context.request('quick', 'go').then(
              () => lines.push('asker is answered'),
              ({ code }) => lines.push(`asker: ${code}`),
            )
          },
          quick: (_message, context) => void context.send('holder', 'go'), // which takes the permit that the answer needs
          holder,
        },
        {
          ...one,
          roles: { ...roles, holder: { priority: 1 } },
          orchestration: {
            strategy: 'custom',
            async run(script) {
              const gone = new AbortController()
              const asked = script.request('asker', 'go', { signal: gone.signal }).catch(() => {})
              await script.sleep(10)
              gone.abort()
              await asked
              return ''
            },
          },
        },
      )
      const run = team.execute('go')
      await team.clock.advance(10)
      t.same(lines, [])
      open()
      await team.clock.advance(0)
      t.ok((await run).success)
      t.same(lines, ['holder ends', 'asker: CANCELLED'])
      t.same(leftovers(team.host), [])
    },
  )

  t.test(`rule 19: the outer turn's signal waits for the turn within it, at concurrency ${concurrency}`, async (t) => {
    const lines: string[] = []
    const given = new AbortController()
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender === 'worker') {
            await team.clock.sleep(100)
            lines.push('nested ends')
          } else
            await context
              .requestAny(['worker', 'other'], 'go', { signal: given.signal })
              .catch(({ code }) => lines.push(`outer: ${code}`))
        },
        worker: async ({ content }, context) => void (await context.request('manager', content)),
        other: (_message, context) => context.sleep(1_000),
      },
      { roles },
    )
    const run = team.execute('go')
    await team.clock.advance(10)
    given.abort()
    await team.clock.advance(10)
    t.same(lines, [])
    await team.clock.advance(100)
    t.same(lines, ['nested ends', 'outer: CANCELLED'])
    t.ok((await run).success)
    t.same(leftovers(team.host), [])
  })

  const own: Record<string, (context: AgentContext) => Promise<unknown>> = {
    'a step': (context) => context.step('own', () => 1),
    'a sleep': (context) => context.sleep(1),
  }
  for (const [what, begin] of Object.entries(own))
    t.test(`rule 19: ${what} begun beside a wait has a permit, at concurrency ${concurrency}`, async (t) => {
      const lines: string[] = []
      const { holder, open } = holderOf(lines)
      const team = openTeam(
        t,
        {
          async asker(_message, context) {
            const answer = context.request('holder', 'go')
            await team.clock.sleep(10)
            await begin(context)
            lines.push('asker goes on')
            await answer
          },
          holder,
        },
        { ...one, roles },
      )
      const run = outcomeOf(team.execute('go'))
      await team.clock.advance(20)
      t.same(lines, [])
      open()
      await team.clock.advance(20)
      t.same(lines, ['holder ends', 'asker goes on'])
      t.match(run.value, { success: true })
      t.same(leftovers(team.host), [])
    })
}

t.test(
  'rule 19: a run that is over is not limited: who was to stop, and waited for a permit, is told at once',
  async (t) => {
    const lines: string[] = []
    const { holder, open } = holderOf(lines)
    const gone = new AbortController()
    const team = openTeam(
      t,
      {
        async asker(_message, context) {
          await context.request('quick', 'go').catch(({ code }) => lines.push(`asker: ${code}`))
        },
        quick: (_message, context) => void context.send('holder', 'go'), // which takes the permit that the answer needs
        holder,
      },
      {
        ...one,
        roles: { holder: { priority: 1 } },
        orchestration: {
          strategy: 'custom',
          async run(script) {
            await script.request('asker', 'go', { signal: gone.signal }).catch(() => script.sleep(100))
            return ''
          },
        },
      },
    )
    const run = team.launch('go')
    await team.clock.advance(10)
    gone.abort()
    await team.clock.advance(10)
    t.same(lines, [])
    void run.cancel('enough')
    await team.clock.advance(1)
    t.same(lines, ['asker: CANCELLED'])
    open()
    t.equal((await run.result).error?.code, 'RUN_ABORTED')
  },
)

t.test('rule 19: a turn that ends while its permit is with another lets no message ahead of it begin', async (t) => {
  const lines: string[] = []
  const { holder, open } = holderOf(lines)
  const team = openTeam(
    t,
    {
      async worker({ content }, context) {
        if (content === 'quick') return
        if (content === 'behind') return void lines.push('behind')
        void context.request('holder', 'go').catch(() => {})
        await team.clock.sleep(10)
        lines.push('ended')
      },
      holder,
    },
    {
      ...one,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          for (let i = 0; i < 50; i++) await script.request('worker', 'quick') // then more than one is handed over
          await Promise.all(['go', 'behind'].map((content) => script.request('worker', content)))
          return ''
        },
      },
    },
  )
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(20)
  t.same(lines, ['ended'])
  open()
  await team.clock.advance(0)
  t.same(lines, ['ended', 'holder ends', 'behind'])
  t.match(run.value, { success: true })
  t.same(leftovers(team.host), [])
})

t.test(
  'rule 19: agents that an answer waits for do not pass the permit of another run to each other for ever',
  async (t) => {
    const held = new Map([
      ['asked', gate()],
      ['other', gate()],
    ])
    const hold: Receive = async (_message, context) => {
      await held.get(context.runId)!.opened
      return 'held'
    }
    const work: Receive = ({ content }, context) => (content === 'ask' ? context.ask('Well?') : 'worked')
    const team = openTeam(
      t,
      { ann: work, bob: work, wes: hold, wim: hold },
      {
        ...one,
        orchestration: {
          strategy: 'custom',
          run: async (script, query) => {
            if (query === 'other') return (await hand(script, 'wim', 'work')).join()
            return (await hand(script, 'wes', 'ask')).join()
          },
        },
      },
    )
    /** Whom both agents wait for has the permit of the run: behind their questions in one run, before their work in the other. */
    const hand = async (script: OrchestratorContext, holder: string, say: string) => {
      const first = say === 'work' ? script.request(holder, 'hold') : undefined
      const asked = script.requestAll(['ann', 'bob'], say)
      if (!first) await script.sleep(10)
      await (first ?? script.request(holder, 'hold'))
      return (await asked).map((outcome) => outcome.ok && outcome.message.content)
    }
    const asked = team.launch('ask', { runId: 'asked' })
    await team.clock.advance(20)
    const other = team.launch('other', { runId: 'other' })
    await team.clock.advance(20)
    for (const { questionId } of team.questions()) await team.answer(questionId, 'yes')
    await team.clock.advance(20)
    held.get('other')!.open()
    t.equal((await other.result).finalOutput, 'worked,worked')
    t.equal(asked.status, 'running')
    held.get('asked')!.open()
    t.equal((await asked.result).finalOutput, 'yes,yes')
    t.same(leftovers(team.host), [])
  },
)
