/** Programs of models on real threads and in real time: the same verdicts. All of them with --deep. */
import t from 'tap'
import { heard, silent } from '../kit/team.ts'
import { type Answers, FakeModel } from '../models/fake-model.ts'
import { ThreadTeam } from '../models/teams.ts'
import { modelLoops } from './model-loops.ts'
import { modelPrograms } from './model-programs.ts'
import { answersIn, lastResult, type ModelProgram, problemsOf, rolesOf } from './program.ts'

const some = [
  'a job that changes at every seventh look',
  'a job that changes at every thirteenth look',
  'a request that is polled and marked',
  'ten equal errors of a service that comes back',
  'a model that marks its calls as polls when it is told',
  'the same call with the same result',
  'the same request to another model',
  'polite philosophers, by tools',
]
const all: Readonly<Record<string, ModelProgram>> = { ...modelPrograms, ...modelLoops }

for (const name of process.env.DRAMATIS_DEEP ? Object.keys(all) : some)
  t.test(`${name}, on threads: ${all[name]!.expected.verdict}`, async (t) => {
    const program = all[name]!
    const answers: Answers = (request) =>
      program.says(answersIn(request.messages), lastResult(request.messages), request)
    const team = new ThreadTeam({
      agents: rolesOf(program),
      orchestration: { strategy: 'sequential' },
      logger: silent,
      threads: { warmSpares: 0 },
      ...program.options,
      models: { default: new FakeModel(answers) },
    })
    t.teardown(() => team.close())
    const found = heard(team, 'livelock', (event) => event)
    const result = await team.execute('go')
    t.same(problemsOf(program.expected, found, result), [])
  })
