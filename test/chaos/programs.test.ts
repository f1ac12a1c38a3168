/** Programs from the literature get their verdict, in virtual time, however their steps fall. */
import t from 'tap'
import { testTeam } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { definitionsOf } from './cast.ts'
import { judge, optionsOf, watch } from './judge.ts'
import { programs } from './programs.ts'

const seeds = Array.from({ length: howMany(5, 200) }, (_, i) => i + 1)

for (const [name, program] of Object.entries(programs))
  t.test(`${name}: ${program.verdict}`, async (t) => {
    for (const seed of seeds) {
      const team = testTeam(optionsOf(program), { seed, modules: definitionsOf(program) })
      const seen = watch(team.events)
      const result = team.execute('go')
      await team.clock.runToIdle()
      judge(t, program, seen, await result)
      await team.close()
    }
  })
