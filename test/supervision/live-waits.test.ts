/** Rule 22: waits that somebody can end yet, and what stands in for whom: who only waits long is left alone. */

import type { Test } from 'tap'
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { askAll, gate, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'
import { after, slow, watched } from './verdicts.ts'

/** It comes to that answer, and nobody was said to wait in vain. */
async function undisturbed(t: Test, team: OpenTeam, answer: string): Promise<void> {
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, answer)
  t.same(found, [])
}

const asksBob: Receive = async ({ content }, context) =>
  content === 'go' ? (await context.request('bob', 'ask')).content : 'done'

/** In 300 pieces. */
async function speak(context: AgentContext): Promise<void> {
  for (let i = 0; i < 300; i++) {
    context.emit('piece')
    await context.step('one more', () => {})
  }
}

/** How many of them there are. */
async function piecesOf(context: AgentContext, from: string): Promise<number> {
  let pieces = 0
  for await (const _piece of context.requestStream(from, 'tell me')) pieces += 1
  return pieces
}

t.test('a sync point whose members are still to come is no stall: its time ends it', async (t) => {
  const team = openTeam(
    t,
    { early: async (_message, context) => JSON.stringify(await context.sync('here')), never: async () => '' },
    { syncPoints: [{ name: 'here', requiredAgents: ['early', 'never'], timeoutMs: 1_000 }] },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.match(result.value?.finalOutput, '"timedOut":true')
  t.same(found, [])
})

t.test(
  'rule 22: who waits for all, or for more than can come, waits in vain though one of them is at work',
  async (t) => {
    const asks: Record<string, Receive> = {
      'for all': async (_, context) => `${(await context.requestAll(['slow', 'bob'], 'your quotes?')).length}`,
      'for two of three': async (_, context) =>
        `${(await context.requestQuorum(['slow', 'bob', 'cleo'], 2, 'your quotes?')).length}`,
    }
    for (const [what, ann] of Object.entries(asks)) {
      const team = openTeam(t, { ann, bob: after('ann'), cleo: after('ann'), slow })
      const found = watched(team)
      const result = outcomeOf(team.execute('go'))
      await team.clock.advance(0)
      t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] }, what)
      await team.clock.runToIdle()
      t.equal(result.settled, true, what)
    }
  },
)

t.test('rule 22: an answer in the place of who was asked is one of those that a quorum waits for', async (t) => {
  const team = openTeam(t, {
    chair: async ({ content }, context) => {
      if (content === 'why') return 'because'
      return `${(await context.requestQuorum(['away', 'slow', 'asks'], 2, 'your vote?')).map(({ sender }) => sender)}`
    },
    away: async (_message, context) => {
      await context.sleep(5_000)
    },
    slow,
    asks: after('chair'),
  })
  const found = watched(team)
  const run = team.launch('go')
  await team.clock.advance(10)
  const asked = run.messageHistory.find(({ type, recipient }) => type === 'request' && recipient === 'away')
  await team.sendMessage({ type: 'response', recipient: null, content: 'yes', correlationId: asked!.id })
  await team.clock.runToIdle()
  t.match((await run.result).finalOutput, /slow/)
  t.same(found, [])
})

t.test('rule 22: an agent that is down comes back: who waits for it waits for that', async (t) => {
  const team = openTeam(t, {
    ann: after('bob'),
    bob: ({ content }, { attempt }) => (attempt < 3 ? new Promise<never>(() => {}) : content),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  for (let death = 0; death < 2; death++) {
    await team.clock.advance(10)
    team.crash('bob')
  }
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'your quote?')
  t.same(found, [])
})

t.test('rule 22: what stands in the mailbox of an agent at work will begin', async (t) => {
  const team = openTeam(t, { ann: after('bob'), bob: after('slow'), slow }, { orchestration: askAll })
  await undisturbed(t, team, 'slow slow slow')
})

t.test('rule 22: a request that stands in the mailbox waits for the turn before it', async (t) => {
  const team = openTeam(t, {
    ann: asksBob,
    bob: after('ann'),
  })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
})

t.test('rule 22: of an agent with several instances any may take it', async (t) => {
  const team = openTeam(
    t,
    {
      ann: asksBob,
      bob: after('ann'),
    },
    { roles: { ann: { instances: 2 } } },
  )
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  t.equal(finalOutput, 'done')
  t.same(found, [])
})

t.test('rule 22: runs can wait for each other', async (t) => {
  const met = [gate(), gate()] as const
  const cross =
    (mine: number, to: string): Receive =>
    async ({ content }, context) => {
      if (content !== 'go') return 'done'
      met[mine]!.open()
      await met[1 - mine]!.opened
      return (await context.request(to, 'ask')).content
    }
  const team = openTeam(t, { ann: cross(0, 'bob'), bob: cross(1, 'ann') })
  const found = watched(team)
  const runs = ['ann', 'bob'].map((name) => outcomeOf(team.getAgent(name)!.run('go')))
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(new Set(found.map(({ runId }) => runId)).size, 2, 'each run is told')
  t.ok(runs.every(({ settled }) => settled))
})

// ---- no false alarm

t.test('a wait for one of several is none while one of them is at work', async (t) => {
  const team = openTeam(
    t,
    {
      ann: async (_, context) => (await context.requestAny(['bob', 'slow'], 'your quote?')).content,
      bob: after('ann'),
      slow: async (_, context) => {
        await context.sleep(100_000)
        return 'at last'
      },
    },
    { communication: { responseTimeoutMs: 200_000 } },
  )
  await undisturbed(t, team, 'at last')
})

t.test('rule 22: who waits for a permit waits for one at work, and one that only waits gives its own up', async (t) => {
  const team = openTeam(
    t,
    {
      ann: async (_, context) => (await context.requestAll(['bob', 'cleo'], 'go')).map(({ ok }) => `${ok}`).join(' '),
      bob: async (_, context) => (await context.request('dan', 'go')).content,
      cleo: async (_, context) => (await context.request('dan', 'go')).content,
      dan: async (_, context) => {
        await context.sleep(1_000)
        return 'done'
      },
    },
    { maxConcurrentAgents: 1 },
  )
  await undisturbed(t, team, 'true true')
})

t.test('a writer that waits for a reader who reads is not stuck', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const team = openTeam(
      t,
      {
        reader: async (_, context) => {
          const pieces = await piecesOf(context, 'writer')
          return `${pieces}`
        },
        writer: async (_, context) => speak(context),
      },
      { seed },
    )
    await undisturbed(t, team, '300')
  }
})

t.test('who reads a stream beside another wait goes on with each piece', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const team = openTeam(
      t,
      {
        ann: async (_, context) => {
          const [pieces, { content }] = await Promise.all([
            piecesOf(context, 'bob'),
            context.request('cleo', 'and you?'),
          ])
          return `${pieces} ${content}`
        },
        bob: async (message, context) => {
          if (message.content === 'tell me') await speak(context)
          return 'bob'
        },
        cleo: after('bob'),
      },
      { seed },
    )
    await undisturbed(t, team, '300 bob')
  }
})

t.test('a wait that a signal of the caller may end is none', async (t) => {
  const controller = new AbortController()
  const team = openTeam(t, {
    ann: async (_, context) => {
      try {
        return (await context.request('bob', 'your quote?', { signal: controller.signal })).content
      } catch (error) {
        return (error as { code: string }).code
      }
    },
    bob: after('ann'),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.same(found, [])
  t.equal(result.settled, false)
  controller.abort()
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'CANCELLED')
})

t.test("the turn's own signal is the runtime's: it excuses nobody", async (t) => {
  const team = openTeam(t, {
    ann: async (_, context) => (await context.request('bob', 'quote?', { signal: context.signal })).content,
    bob: after('ann'),
  })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
})

t.test('a turn that does something beside its wait is not stuck yet', async (t) => {
  const team = openTeam(t, {
    ann: async (_, context) => {
      const quote = context.request('bob', 'your quote?')
      await Promise.race([quote.catch(() => {}), context.sleep(500)])
      return 'I go without'
    },
    bob: async (_, context) =>
      context.request('ann', 'yours?').then(
        ({ content }) => content,
        ({ code }: { code: string }) => code,
      ),
  })
  await undisturbed(t, team, 'I go without')
})
