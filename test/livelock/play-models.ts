/** Plays programs of models in virtual time, with what is on where nobody has said anything. */
import t from 'tap'
import type { Answers } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import type { Livelock } from '../supervision/livelocks.ts'
import { answersIn, lastResult, type ModelProgram, problemsOf, rolesOf } from './program.ts'

/** Holds each against its verdict. */
export function playAll(programs: Readonly<Record<string, ModelProgram>>): void {
  for (const [name, program] of Object.entries(programs))
    t.test(`${name}: ${program.expected.verdict}`, async (t) => {
      const { found, result } = await played(t, program)
      t.same(problemsOf(program.expected, found, result), [])
    })
}

async function played(t: Parameters<typeof modelTeam>[0], program: ModelProgram) {
  const answers: Answers = (request) => program.says(answersIn(request.messages), lastResult(request.messages), request)
  const { team } = modelTeam(t, answers, rolesOf(program), program.options)
  const found: Livelock[] = []
  team.events.subscribe((event) => {
    if (event.type === 'livelock') found.push(event)
  })
  return { found, result: await team.execute('go') }
}
