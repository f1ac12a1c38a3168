/** Examples and failures as a new user starts them, without a key, and examples with one. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { read } from '../docs/page.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { howMany } from '../how-many.ts'
import { dramatis } from '../service/command-line.ts'
import { guard, start, startBeside } from './start.ts'

// `npm run examples`: each with its name, what it shows and its output.

const run = (...names: string[]) => start('.', names)

t.test('the example that is named is run, and what it prints is shown', async (t) => {
  const { status, stdout, stderr } = run('writing-pipeline')
  t.equal(status, 0, stderr)
  t.match(stdout, /^=+ writing-pipeline: .+\n\n# Docker Compose$/m)
  t.match(stdout, '1 of 1 examples did what they are for')
})

t.test('if one fails the next is run all the same, and the exit code is 1, as for one that there is not', async (t) => {
  const failing = start('.', ['writing-pipeline', 'agent-workbench'], { TMPDIR: t.testdirName })
  t.equal(failing.status, 1, 'there is no such folder, so one cannot make its own in it')
  t.match(failing.stdout, /^writing-pipeline failed: exit code 1$/m)
  t.match(failing.stdout, /^=+ agent-workbench: .+\n\n+# Each task goes/m)
  t.match(failing.stdout, '1 of 2 examples did what they are for')
  const missing = run('city-desc')
  t.equal(missing.status, 1)
  t.match(missing.stderr, /There is no example city-desc\. There are agent-workbench, /)
})

t.test('each example that has a program of its own is in the list, has a README, and a command', async (t) => {
  const listed = run('none')
    .stderr.match(/There are (.*)\./)?.[1]
    ?.split(', ')
  const folders = readdirSync('examples').filter((name) => existsSync(`examples/${name}/main.ts`))
  t.same(listed?.toSorted(), folders.toSorted())
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const main = readFileSync('README.md', 'utf8')
  for (const folder of folders) {
    t.ok(existsSync(`examples/${folder}/README.md`), folder)
    t.match(Object.values(scripts).join('\n'), `dist/examples/${folder}/main.js`)
    t.match(main, `(examples/${folder}/README.md)`)
  }
})

t.test('a script that is asked something else says what it answers', async (t) => {
  const { status, stdout, stderr } = start('writing-pipeline', ['Explain', 'git'])
  t.equal(status, 0)
  t.match(stderr, 'It is asked instead: Create a guide explaining how to use Docker Compose')
  t.match(stdout, '# Docker Compose')
})

// The reader of reviews, measured over sentences that people have labelled.

t.test('a reader of reviews is better than a simpler one over real sentences, and says what it misses', async (t) => {
  const { status, stdout, stderr } = start('review-desk')
  t.equal(status, 0, stderr)
  t.match(stdout, /Eight words:\n\nreviews: passed \(90 cases[\s\S]*sameJson: 0\.544/)
  t.match(stdout, /sameJson: 0\.700 .*\n {4}before: \+0\.156 \(95 %: 0\.044 to 0\.267, p 0\.017\)/)
  t.match(stdout, /It misses 27 of 90, such as:\n {2}amazon \d+: ".*" is called {"opinion":"good"}/)
})

// The workbench of document 000, as a new user starts it.

t.test('the workbench routes, votes, and plans a trip with a teammate who comes later', async (t) => {
  const { status, stdout, stderr } = start('agent-workbench')
  t.equal(status, 0, stderr)
  t.match(stderr, /"search for today's weather"\? SearchExpert \(.*its capability "search"/)
  t.match(stderr, /"calculate value of MathSkill expression 2\+2"\? CalcBot \(.*its tool "MathSkill"/)
  t.match(stderr, /"Use WebSearch for latest articles"\? SearchExpert/)
  t.match(stdout, /^2\+2 is 4\.$/m)

  t.match(stderr, /Action Alpha \(A tie: the first seen of those with the most votes/)
  t.match(stdout, /weights\n\nAction Alpha\n/)
  t.match(stderr, /Proceed \(The most votes, from AgentP, AgentR\.\)/)
  t.match(stdout, /majority decides\n\nProceed\n/)

  t.match(stderr, /recruit \{"name":"HotelScout"\}\n.*hotel options[^\n]*\? HotelScout/s)
  const trip = [
    'Flight options: SFO Air, United...',
    'Pet-friendly hotels: Hotel PAWsome, The Canine Courtyard...',
    "Activities: Golden Gate Bridge, Alcatraz, Fisherman's Wharf.",
  ]
  t.ok(stdout.endsWith(`${trip.join('\n')}\n`), 'one result a line, in the order of the plan')
})

// The debate of the second source document, as a new user starts it.

t.test('the debate goes over three rounds, sends back what has no evidence, and ends with an answer', async (t) => {
  const { status, stdout, stderr } = start('api-debate')
  t.equal(status, 0, stderr)
  const speakers = stdout.match(/^(advocate|critic|judge)(?=:)/gm) ?? []
  t.same(speakers, ['advocate', 'critic', 'advocate', 'critic', 'critic', 'advocate', 'critic', 'judge', 'judge'])
  t.match(stdout, /^critic: One query can bring the database down\.\n\$orchestrator asks critic/m)
  t.match(stdout, /^critic: One query can ask for very much.*\n {2}- https:\/\/graphql\.org\/learn\/security\/$/m)
  t.match(stdout, /^judge: The winner is critic\./m)
  t.match(stdout, /# Answer\n\nNo, do not migrate: add a GraphQL endpoint/)
  t.equal(stderr.match(/^ {2}(advocate|critic): web_search /gm)?.length, 4)
  t.match(stderr, /Who has won the debate\? critic \(The judge "judge" says so/)
})

// The team of the second source document that builds a page, as a new user starts it.

t.test(
  'the manager plans, approves and sends back; the developers write and test, and nothing is left behind',
  async (t) => {
    const folder = t.testdir()
    const { status, stdout, stderr } = start('web-team', [], { TMPDIR: folder })
    t.equal(status, 0, stderr)
    t.match(stderr, /Who does task 1\? backend_dev .*Who does task 2\? frontend_dev .*Who does task 3\? backend_dev /s)
    t.match(stderr, /Is what "backend_dev" proposes for task 1 approved\? yes \(Numbers alone are ids\.\)/)
    t.match(stderr, /Is what "frontend_dev" has done for task 2 approved\? no \(A name can have markup in it/)
    const commands = stderr.match(/^ {2}backend_dev: run_cmd .*$/gm) ?? []
    t.same(
      commands.map((line) => line.match(/\w+\.test\.js/)?.[0]),
      ['api.test.js', 'page.test.js', 'page.test.js', 'api.test.js'],
      'the page is tested before the fix and after it',
    )
    const [, summary, ...files] = stdout.trimEnd().split('\n')
    t.match(summary, /^There is a profile page at .* All 3 tests pass\./)
    const made = ['api.test.js', 'package.json', 'page.test.js', 'public/profile.html', 'public/profile.js']
    t.same(files.slice(1), [...made, 'server.js', 'users.json'])
    t.same(readdirSync(folder), [])
  },
)

t.test('the smallest team file answers from the command line', async (t) => {
  const args = ['dist/src/service/cli.js', 'run', 'examples/hello/team.ts', 'world']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.strictSame({ status, stdout }, { status: 0, stdout: 'Hello, world!\n' }, stderr)
})

// What a new user starts first asks for no key and reaches for no network.

/** Only what finds programs is left of the environment: no key, no address of a provider. */
const offlineStart = (...args: string[]) =>
  spawnSync(process.execPath, ['--import', guard, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    timeout: 60_000,
  })

t.test('the guard ends who reaches for the network', async (t) => {
  for (const code of ["fetch('http://192.0.2.1/')", "require('net').connect(80, '192.0.2.1')"]) {
    const { status, stderr } = offlineStart('-e', code)
    t.equal(status, 70, code)
    t.match(stderr, 'reached for the network: 192.0.2.1')
  }
})

t.test('the first one runs without a key, a network, and all but what finds programs', async (t) => {
  const { status, stdout, stderr } = offlineStart('dist/examples/data-desk/main.js')
  t.equal(status, 0, stderr)
  t.notMatch(stderr, 'reached for the network')
  t.not(stdout, '')
})

// Failures as their commands show them, and examples with a key.

// Each failure that docs/explanation/failures.md has a row for, as its command shows it.

/** What the user sees of each. */
const shown: Record<string, { code: number; stdout: string | RegExp; stderr: RegExp[] }> = {
  crash: { code: 0, stdout: 'done, in attempt 2\n', stderr: [/^worker crashed: .*; restarts at once$/m] },
  deadlock: {
    code: 0,
    stdout: /^(less than )?10\n$/,
    stderr: [/^deadlock: ann -> bob$/m, /^deadlock: ann -> bob; (ann|bob) gives way$/m],
  },
  livelock: {
    code: 1,
    stdout: '',
    stderr: [
      /^livelock: "manager" asked "worker" the same 4 times/m,
      /^warn worker No progress: /m,
      /^error: LIVELOCK: /m,
    ],
  },
  silence: {
    code: 1,
    stdout: '',
    stderr: [
      /asked again[\s\S]*asked again/,
      /^warn manager .*did not answer .*asked 3 times/m,
      /^error: .*RequestTimeoutError/m,
    ],
  },
  tie: { code: 0, stdout: 'blue\n', stderr: [/^task completed: chair: go$/m] },
}

for (const [name, { code, stdout, stderr }] of Object.entries(shown))
  t.test(name, async (t) => {
    const file = `examples/failures/${name}.ts` // tests are started in the project's folder
    t.match(read('docs/explanation/failures.md'), `\`${file} go\``)
    const seen = await dramatis(['run', file, 'go'])
    t.equal(seen.code, code, seen.stderr)
    t.match(seen.stdout, stdout)
    for (const line of stderr) t.match(seen.stderr, line)
  })

// With a key the models are real: each example asks the provider that the environment names, and plays no script.

/** An answer that fits what is asked for. */
function answerTo({ prompt, body }: SeenCall): string | Answer {
  const schema = JSON.stringify(body.response_format ?? '')
  const json = (value: unknown) => JSON.stringify(value)
  if (schema.includes('"evidence"')) return json({ argument: 'It is faster.', evidence: ['a benchmark'] })
  if (schema.includes('"winner"')) return json({ winner: 'critic', reasons: 'It has more evidence.' })
  if (schema.includes('"approved"')) return json({ approved: true })
  if (schema.includes('"worker"')) return json({ tasks: [{ worker: 'backend_dev', task: 'Write it.' }] })
  if (body.tool_choice === 'required')
    return { toolCalls: [{ name: 'create_plan', input: { tasks: [{ agent: 'ResearchAgent', task: 'Find it.' }] } }] }
  return prompt.includes('JSON array') ? json(['Find a flight', 'List activities']) : 'In the words of the model.'
}

const real = ['agent-workbench', 'api-debate', 'research-desk', 'web-team', 'writing-pipeline']

for (const example of real.filter((_, at) => at % howMany(2, 1) === 0)) {
  t.test(`${example} asks the provider`, async (t) => {
    const server = await modelServer(t)
    server.always(answerTo)
    const { status, stdout, stderr } = await startBeside(example, {
      OPENAI_API_KEY: 'sk-of-the-user',
      OPENAI_BASE_URL: server.baseURL,
      DRAMATIS_MODEL: 'small',
      TMPDIR: t.testdir(),
    })
    t.equal(status, 0, stderr)
    t.match(stdout, /In the words of the model\.\n/)
    t.notMatch(stderr, 'script')
    t.ok(server.calls.length > 2)
    for (const { key, body } of server.calls)
      t.match({ key, model: body.model }, { key: 'sk-of-the-user', model: 'small' })
    t.notMatch(stdout + stderr, 'sk-of-the-user')
  })
}
