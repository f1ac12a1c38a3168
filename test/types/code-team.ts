/** A team of code agents alone, as a user writes it: nothing here may need a model, a cast or a type argument. */
import { createTeam, defineAgent, type MultiAgentPattern, type Team } from 'dramatis'
import { testTeam, virtualClock } from 'dramatis/testing'

export const analyst = defineAgent({
  initialState: { seen: 0 },
  async receive(message, context) {
    context.setState((draft) => {
      draft.seen += 1
    })
    if (context.attempt === 1 && message.content === 'crash once') process.exit(1)
    await context.publish(`finding.${context.role.name}`, { seen: context.state.seen }, 'fact', { confidence: 0.9 })
    return { content: `seen ${context.state.seen}`, structuredData: { seen: context.state.seen } }
  },
})

const module = new URL('./analyst.js', import.meta.url)

export async function onThreads(): Promise<string[]> {
  const team = createTeam({
    agents: [
      { name: 'a', module },
      { name: 'b', module },
      { name: 'writer', module },
    ],
    enableBlackboard: true,
    orchestration: {
      strategy: 'custom',
      run: async (orchestrator, query) => {
        const outcomes = await orchestrator.requestAll(['a', 'b'], query)
        const board = await orchestrator.blackboard.query({ entryType: 'fact' })
        const first = await orchestrator.requestAny(['a', 'b'], 'again')
        const [quorum] = await orchestrator.requestQuorum(['a', 'b'], 1, 'again')
        if (quorum?.sender === first.sender) return quorum.content
        return `${outcomes.filter((outcome) => outcome.ok).length} answered, ${board.length} findings, ${first.sender} first`
      },
    },
  })
  const crashes: string[] = []
  const subscription = team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') crashes.push(event.agent)
  })
  const result = await team.execute('crash once')
  crashes.push(result.success ? result.finalOutput : result.error.message, String(team.health().ready))
  subscription.unsubscribe()
  await team.close()
  return crashes
}

export async function underTest(): Promise<boolean> {
  await using team = testTeam(
    { agents: [{ name: 'a' }, { name: 'b' }], orchestration: { strategy: 'parallel', waitFor: 'all' } },
    { clock: virtualClock({ seed: 1 }), modules: { a: analyst, b: analyst } },
  )
  team.crash('a')
  // @ts-expect-error nobody has that name
  team.crash('c')
  return (await team.execute('go')).success
}

/** A team that knows its agents' names fits where no name is known. */
export class Service {
  readonly #team: MultiAgentPattern
  readonly #same: Team

  constructor() {
    const team = createTeam({ agents: [{ name: 'a', module }], orchestration: { strategy: 'sequential' } })
    this.#team = team
    this.#same = team
  }

  async close(): Promise<void> {
    await Promise.all([this.#team.close({ drainMs: 10 }), this.#same.close()])
  }
}

/** Roles that were collected elsewhere have no literal names, and need none. */
export function collected(names: string[]): Team {
  const roles = names.map((name) => ({ name, module, capabilities: ['coordination'] }))
  return createTeam({
    agents: roles,
    orchestration: { strategy: 'sequential', agentOrder: names, passFullContext: true },
  })
}
