import { readFileSync } from 'node:fs'
import t from 'tap'
import { main } from '../../src/service/commands/program.ts'
import { fakeSurroundings } from './fake-team.ts'

t.test('--help and --version go to stdout and are no failure', async (t) => {
  const help = await dramatis('--help')
  t.match(help, { code: 0, stderr: '' })
  t.match(help.stdout, /^Usage: dramatis [\s\S]*run[\s\S]*Exit codes: 0 done, 1 a run failed, 2/)
  const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))
  t.strictSame(await dramatis('--version'), { code: 0, stdout: `${version}\n`, stderr: '' })
  const rehearse = /--seeds <number>[\s\S]*--seed <seed>[\s\S]*--faults \[list][\s\S]*--record <file>[\s\S]*--json/
  t.match(await dramatis('rehearse', '--help'), { code: 0, stdout: rehearse })
  t.match(await dramatis('run', '--help'), { code: 0, stdout: /--json[\s\S]*--trace <file>[\s\S]*--timeout <ms>/ })
})

t.test('wrong usage exits with 2, says why, and leaves stdout empty', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /Usage: dramatis/],
    [['rnu', 'team.js', 'why?'], /unknown command 'rnu'[\s\S]*Did you mean run/],
    [['run'], /missing required argument 'team-file'/],
    [['run', 'team.js'], /missing required argument 'query'/],
    [['run', 'team.js', 'two', 'words'], /too many arguments[\s\S]*needs quotes/],
    [['run', 'team.js', 'why?', '--jsno'], /unknown option '--jsno'/],
    [['run', 'team.js', 'why?', '--trace'], /argument missing/],
    [['run', 'team.js', 'why?', '--timeout', 'soon'], /whole number of milliseconds/],
    [['run', 'team.js', 'why?', '--timeout', '0'], /whole number of milliseconds/],
  ]
  for (const [args, why] of wrong)
    t.match(await dramatis(...args), { code: 2, stdout: '', stderr: why }, args.join(' '))
})

t.test('a command that does not exist is wrong usage, and the help names those that do', async (t) => {
  t.match(await dramatis('converse', 'team.ts'), { code: 2, stdout: '', stderr: /unknown command 'converse'/ })
  const listed = [...(await dramatis('--help')).stdout.matchAll(/^ {2}(\w+)(?: \[options\]| {10,})/gm)].map(
    ([, name]) => name,
  )
  t.strictSame(listed, [
    'run',
    'serve',
    'chat',
    'top',
    'rehearse',
    'trace',
    'replay',
    'runs',
    'resume',
    'questions',
    'answer',
    'cluster',
    'log',
  ])
})

async function dramatis(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(args, surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}
