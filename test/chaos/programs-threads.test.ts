/** The same programs get the same verdicts on threads. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { judge, optionsOf, watch } from './judge.ts'
import { programs } from './programs.ts'

for (const [name, program] of Object.entries(programs))
  t.test(`${name}: ${program.verdict}`, async (t) => {
    const team = createTeam(optionsOf(program, true))
    t.teardown(() => team.close())
    const seen = watch(team.events)
    judge(t, program, seen, await team.execute('go'))
  })

t.test('five philosophers who all begin at once: each time it is found and broken, and all have eaten', async (t) => {
  const program = programs['dining philosophers, all take the left fork first']!
  const team = createTeam(optionsOf(program, true))
  t.teardown(() => team.close())
  const seen = watch(team.events)
  const rounds = howMany(1, 100)
  for (let round = 0; round < rounds; round++) {
    seen.found = []
    judge(t, program, seen, await team.execute('go'))
  }
})
