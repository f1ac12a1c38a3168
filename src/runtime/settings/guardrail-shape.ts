/** Shape of guardrails, for a team as well as for a role. */
import type { GuardedBy, Guardrail, Guardrails } from '../../actors/definition/guardrail.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import { type Check, listOf, oneOf, rule, shape, wait } from '../checks/checks.ts'
import { refusedAs } from '../checks/refused.ts'

const someName = rule('a text that is not empty', (value) => typeof value === 'string' && value !== '')
const aFunction = rule('a function', (value) => typeof value === 'function')

const guardrail = shape<Guardrail>(
  { name: someName, when: oneOf('before', 'beside'), timeoutMs: wait(), check: aFunction },
  'name',
  'check',
)

const afterwards: Check = (value, path) => {
  guardrail(value, path)
  if ((value as Guardrail).when !== undefined)
    throw refusedAs(`${path}.when`, 'a value', 'nothing: it is for input', 'Outputs and calls of tools always wait.')
}

export const guardrailsShape = shape<Guardrails>({
  input: listOf(guardrail),
  output: listOf(afterwards),
  tool: listOf(afterwards),
})

/** Checks of one agent: its own, and those of the team for tools. Each list is a copy. */
export interface AgentGuards {
  readonly input: readonly Guardrail[]
  readonly output: readonly Guardrail[]
  readonly tool: NonNullable<Guardrails['tool']>
}

/** Returns the checks of a role at `path`. Throws if code plays it and the role has checks that only models have. */
export function guardsOf(role: AgentRole, path: string, team: Guardrails | undefined, byModel: boolean): AgentGuards {
  const { input = [], output = [], tool = [] } = role.guardrails ?? {}
  for (const [name, list] of Object.entries({ input, output }))
    if (!byModel && list.length > 0)
      throw refusedAs(
        `${path}.guardrails.${name}`,
        'checks of an agent with code',
        'checks of a role that a model plays',
        'Check it in the code.',
      )
  return { input: [...input], output: [...output], tool: [...(team?.tool ?? []), ...tool] }
}

/** Returns the kinds of checks that an agent has; undefined without any. */
export function guardedBy({ input, output, tool }: AgentGuards): GuardedBy | undefined {
  const before = input.some(({ when }) => when === 'before')
  const beside = input.some(({ when }) => when !== 'before')
  const guarded = { before, beside, output: output.length > 0, tool: tool.length > 0 }
  return Object.values(guarded).some(Boolean) ? guarded : undefined
}
