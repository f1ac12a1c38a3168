/** Teams whose roles are played by a fake model, or whose code asks one. */
import type t from 'tap'
import {
  type AgentContext,
  AgentCrashedError,
  type DramatisError,
  MultiAgentPattern,
  type MultiAgentResult,
  type RuntimeEvent,
} from '../../src/index.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { type TestTeam, testTeam } from '../../src/testing.ts'
import { localTeam, silent } from '../kit/team.ts'
import { type Answers, FakeModel } from './fake-model.ts'

type Test = Pick<typeof t, 'teardown'>
type Options = Partial<MultiAgentPatternOptions>

/** Roles without code. */
export function modelTeam(
  t: Test,
  answers: Answers | FakeModel,
  agents: MultiAgentPatternOptions['agents'],
  options: Options = {},
): { team: TestTeam; model: FakeModel } {
  const model = answers instanceof FakeModel ? answers : new FakeModel(answers)
  const team = testTeam({ agents, orchestration: { strategy: 'sequential' }, logger: silent, ...options }, { model })
  t.teardown(() => team.close())
  return { team, model }
}

/** One agent with code, `act`; what came of it, and of all that happened meanwhile. */
export async function played(
  t: Test,
  answers: Answers,
  act: (context: AgentContext) => unknown,
  options: Options & { role?: object } = {},
): Promise<{
  model: FakeModel
  value: unknown
  error: DramatisError | undefined
  events: RuntimeEvent[]
  result: MultiAgentResult
}> {
  const model = new FakeModel(answers)
  const { role = {}, ...others } = options
  let value: unknown
  let error: DramatisError | undefined
  const receive = async (_message: unknown, context: AgentContext) => {
    try {
      value = await act(context)
    } catch (thrown) {
      error = thrown as DramatisError
    }
    return ''
  }
  const team = localTeam(t, { ann: receive }, { models: { default: model }, roles: { ann: role }, ...others })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  const result = await team.execute('go')
  return { model, value, error, events, result }
}

/** On real threads, which can be ended from outside. */
export class ThreadTeam extends MultiAgentPattern {
  get host(): Supervisor {
    return this.supervisor
  }
  /** No two deaths are the same, so that none is evidence against a message. */
  end(name: string): void {
    const agent = this.supervisor.directory.agent(name)!
    agent.incarnation?.kill(new AgentCrashedError(`The test ended life ${agent.epoch}.`, { agent: name }))
  }
}
