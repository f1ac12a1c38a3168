/** The code of the agents of programs: in virtual time as it is, for a thread by its file. */
import type { AgentDefinition } from '../../src/index.ts'
import diner from '../fixtures/chaos/diner.ts'
import fork from '../fixtures/chaos/fork.ts'
import polite from '../fixtures/chaos/polite.ts'
import walker from '../fixtures/chaos/walker.ts'
import type { Program } from './program.ts'

const CODE = { diner, fork, polite, walker }
export type Code = keyof typeof CODE

/** One agent: whose code it has, and its data. */
interface Member {
  readonly name: string
  readonly code: Code
  readonly data: unknown
}

export const membersOf = ({ agents, others = {} }: Program): Member[] => [
  ...Object.entries(agents).map(([name, data]) => ({ name, code: 'walker' as const, data })),
  ...Object.entries(others).map(([name, { code, data }]) => ({ name, code, data })),
]

export const fileOf = (code: Code): URL => new URL(`../fixtures/chaos/${code}.js`, import.meta.url)

export const definitionsOf = (program: Program): Record<string, AgentDefinition> =>
  Object.fromEntries(membersOf(program).map(({ name, code }) => [name, CODE[code]]))
