/** Teams of code and of models, healthy and not, each with its verdict, in virtual time. */
import t from 'tap'
import { heard, type OpenTeam, openTeam } from '../kit/team.ts'
import { play } from '../supervision/livelocks.ts'
import { codeLoops } from './code-loops.ts'
import type { CodeProgram } from './code-program.ts'
import { codePrograms } from './code-programs.ts'
import { modelLoops } from './model-loops.ts'
import { modelPrograms } from './model-programs.ts'
import { playAll } from './play-models.ts'
import { problemsOf } from './program.ts'

for (const [name, program] of Object.entries({ ...codePrograms, ...codeLoops }))
  t.test(`${name}: ${program.expected.verdict}`, async (t) => {
    const team = teamOf(t, program)
    const found = heard(team, 'livelock', (event) => event)
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
    script: async (script) => {
      await run(script)
      await script.sleep(1_000) // what was sent is handled
      return 'done'
    },
  })
}

// Teams of models that go round in circles: they are told, and what goes on after all notices is ended.

playAll(modelLoops)

// Teams of models that come to their end: nobody is told without need, and no turn is ended.

playAll(modelPrograms)
