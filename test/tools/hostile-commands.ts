/**
 * Commands and arguments that have made somebody's program run another one. Every payload only touches `mark`, a file that
 * must not be there afterwards: a fault that a test finds does not harm the machine.
 *
 * Sources: PayloadsAllTheThings "Command Injection" (chaining, substitution, IFS, brace expansion, newlines, wildcards);
 * OWASP "OS Command Injection Defense" and "Testing for Command Injection" (WSTG-INPV-12); SonarSource "Argument
 * Injection Vectors"; GTFOBins (python, pip, node, find, env, xargs); CVE-2024-27980 (batch files); CWE-78, CWE-88, CWE-426.
 */
const joints = [
  ';',
  '&',
  '&&',
  '|',
  '||',
  '|&',
  '\n',
  '\r\n',
  '\r',
  '\t;',
  ' ; ',
  '%0a',
  '%0d%0a',
  '\u2028',
  '\u037e',
  '；',
]
const wrappers: ((command: string) => string)[] = [
  (command) => `\`${command}\``,
  (command) => `$(${command})`,
  (command) => `$((${command}))`,
  (command) => `<(${command})`,
  (command) => `>(${command})`,
  (command) => `{${command.replace(' ', ',')}}`,
  (command) => command.replace(' ', '$IFS'),
  (command) => command.replace(' ', '$\u007bIFS}'),
  (command) => command.replace(' ', '$IFS$9'),
  (command) => command.replace(' ', '<'),
  (command) => command.replace('touch', 't\\ouch'),
  (command) => command.replace('touch', "t'o'uch"),
  (command) => command.replace('touch', 't"o"uch'),
  (command) => command.replace('touch', 't$@ouch'),
  (command) => command.replace('touch', 't$()ouch'),
  (command) => command.replace('touch', '$\u007bHOME:0:0}touch'),
  (command) => `"; ${command}; "`,
  (command) => `'; ${command}; '`,
  (command) => `\\"; ${command}; \\"`,
  (command) => `" && ${command} && "`,
  (command) => `' || ${command} || '`,
  (command) => `)) ; ${command} ; ((`,
  (command) => `x=${command};$x`,
  (command) => `() { :;}; ${command}`,
  (command) => `!${command}`,
  (command) => `^a^${command}`,
  (command) => `#{${command}}`,
  (command) => `{{${command}}}`,
  (command) => `<%= ${command} %>`,
  (command) => `%COMSPEC% ${command}`,
  (command) => `"&${command}&"`,
  (command) => `^&${command}`,
]

/** Arguments full of what a shell would act on. */
export function shellPayloads(mark: string): string[] {
  const command = `touch ${mark}`
  const joined = joints.flatMap((joint) =>
    ['', 'x', '127.0.0.1', '"x"', '`x`'].map((word) => `${word}${joint}${command}`),
  )
  const both = joints.flatMap((joint) => [`${joint}${command}${joint}`, `${command}${joint}`, `a${joint}$(${command})`])
  const plain = [
    '*',
    '?',
    '[a-z]*',
    '~',
    '$HOME',
    '$PATH',
    '%PATH%',
    '!!',
    '\\',
    '"',
    "'",
    '>',
    `>${mark}`,
    `>>${mark}`,
    `2>${mark}`,
    `<${mark}`,
    '-',
    '--',
    '',
  ]
  return [
    ...joined,
    ...both,
    ...wrappers.map((wrap) => wrap(command)),
    ...wrappers.map((wrap) => `x ${wrap(command)}`),
    ...plain,
  ]
}

/** What is no program of the allow-list `['node']`, however much it looks like one. */
export function notPrograms(mark: string): string[] {
  const command = `touch ${mark}`
  const others = [
    'sh',
    'bash',
    'zsh',
    'dash',
    'cmd',
    'cmd.exe',
    'powershell',
    'env',
    'xargs',
    'find',
    'sudo',
    'su',
    'nohup',
    'timeout',
    'nice',
    'busybox',
    'perl',
    'ruby',
    'python',
    'npx',
    'npm',
    'curl',
    'wget',
    'ssh',
    'tar',
    'awk',
    'sed',
    'vi',
    'git',
    'touch',
    'eval',
    'exec',
    'source',
    '.',
  ]
  const like = [
    'Node',
    'NODE',
    'node ',
    ' node',
    'node\n',
    '\nnode',
    'node\0',
    'node\t',
    'node.exe',
    'node.cmd',
    'node.bat',
    'nоde',
    'ｎｏｄｅ',
    'node\u200b',
    'node\u00a0',
    'no\\de',
    '"node"',
    "'node'",
    'node;',
    'node|',
    'node&',
    'node*',
    'nod?',
    '$(which node)',
    '`which node`',
    'node --version',
    'nodejs',
    '__proto__',
    'constructor',
    'length',
    '0',
    '',
    '*',
  ]
  const paths = [
    '/usr/bin/node',
    '/bin/sh',
    './node',
    '../node',
    'bin/node',
    './bin/node',
    '.\\node',
    'C:\\node.exe',
    '\\\\server\\node',
    '//usr/bin/node',
    '/proc/self/exe',
    '/usr/bin/../bin/node',
    '~/node',
    'file:///usr/bin/node',
    'work/node',
    './',
    '/',
    '..',
    '$PATH/node',
    '%PATH%\\node',
  ]
  return [
    ...others,
    ...like,
    ...paths,
    ...joints.map((joint) => `node${joint}${command}`),
    ...wrappers.map((wrap) => wrap(command)),
  ]
}

/** Arguments that point a program to what lies outside: as a path, in an option, in a list, by a URL. */
export function outwardArguments(outside: string[]): string[] {
  const ways = outside.flatMap((path) => [path, ...pathForms(path)])
  const options = [
    '--require=',
    '--import=',
    '-r',
    '-I',
    '--config=',
    '--rootdir=',
    '--out-file=',
    '@',
    '--env-file=',
    'a,',
    'x:',
    '--paths=a,',
    '-c=',
    '--log-file=',
    '--find-links=',
    '--target=',
    '--opt=a;',
    '--cache-dir= ',
  ]
  const urls = outside.flatMap((path) =>
    ['file://', 'file:', 'FILE://', 'git+file://', 'file://localhost', '-e file://', 'x @ file://'].map(
      (scheme) => scheme + path,
    ),
  )
  const encoded = [
    'file:%2e%2e/secret.js',
    'file:..%2fsecret.js',
    'http://../../outside/secret.js',
    'x://a/../../../outside/secret.js',
    '~',
    '~/x',
    '~root/x',
    '--user=~/x',
    '\\\\server\\share',
    'C:\\Windows\\win.ini',
    '--x=C:/Windows',
  ]
  return [...ways, ...options.flatMap((option) => outside.map((path) => option + path)), ...urls, ...encoded]
}

function pathForms(path: string): string[] {
  return [
    `/${path}`,
    `/.${path}`,
    `./${'../'.repeat(12)}${path.slice(1)}`,
    `src/../../outside/x${path}`,
    ` ${path}`,
    `${path} `,
    `"a"=${path}`,
  ]
}
