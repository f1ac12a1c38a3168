/** Teams of code, healthy and not, each with its verdict: watched because the team asks for it, in virtual time. */
import t from 'tap'
import { type Livelock, play } from '../supervision/livelocks.ts'
import { type OpenTeam, openTeam } from '../supervision/teams.ts'
import { codeLoops } from './code-loops.ts'
import type { CodeProgram } from './code-program.ts'
import { codePrograms } from './code-programs.ts'
import { problemsOf } from './program.ts'

for (const [name, program] of Object.entries({ ...codePrograms, ...codeLoops }))
  t.test(`${name}: ${program.expected.verdict}`, async (t) => {
    const team = teamOf(t, program)
    const found: Livelock[] = []
    team.events.subscribe((event) => {
      if (event.type === 'livelock') found.push(event)
    })
    const result = await play(team)
    t.same(problemsOf(program.expected, found, result), [])
  })

function teamOf(t: Parameters<typeof openTeam>[0], { cast, run, roles, later, options }: CodeProgram): OpenTeam {
  return openTeam(t, cast, {
    supervision: { livelock: {} },
    maxConcurrentAgents: 20,
    ...options,
    ...(roles && { roles }),
    ...(later && { later }),
    orchestration: {
      strategy: 'custom',
      run: async (script) => {
        await run(script)
        await script.sleep(1_000) // what was sent is handled
        return 'done'
      },
    },
  })
}
