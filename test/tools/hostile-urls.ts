/**
 * URLs that try to reach what is not public. `{port}` stands for the canary's port; every name resolves to the canary's
 * address, and whoever is to be trusted by a confused parser is at 1.1.1.1.
 */

export interface HostileUrls {
  source: string
  urls: string[]
}

type Four = readonly [number, number, number, number]
const TARGETS: Four[] = [
  [127, 0, 0, 1],
  [169, 254, 169, 254],
  [10, 0, 0, 1],
  [192, 168, 1, 1],
]

const number = ([a, b, c, d]: Four) => ((a * 256 + b) * 256 + c) * 256 + d
const hex = (byte: number) => byte.toString(16).padStart(2, '0')
const octal = (byte: number) => byte.toString(8)
const circled = (text: string) =>
  text.replace(/\d/g, (digit) => (digit === '0' ? '⓪' : String.fromCodePoint(0x245f + Number(digit))))
const fullWidth = (text: string) => text.replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))
const percent = (text: string) => [...text].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')

/** The spellings of one address that a URL parser takes. */
function spellings(four: Four): string[] {
  const [a, b, c, d] = four
  const dotted = four.join('.')
  return [
    dotted,
    `${dotted}.`,
    String(number(four)),
    `0x${number(four).toString(16)}`,
    `0${number(four).toString(8)}`,
    four.map((byte) => `0x${hex(byte)}`).join('.'),
    four.map((byte) => `0${octal(byte)}`).join('.'),
    four.map((byte) => `0000${octal(byte)}`).join('.'),
    `0x${hex(a)}.0${octal(b)}.${c * 256 + d}`,
    `${a}.${(b * 256 + c) * 256 + d}`,
    circled(dotted),
    fullWidth(dotted),
    dotted.replaceAll('.', '。'),
    percent(dotted),
  ]
}

/** The forms of IPv6 that carry it. */
function embeddings(four: Four): string[] {
  const [a, b, c, d] = four.map(hex)
  const high = `${a}${b}`
  const low = `${c}${d}`
  return [
    `[::ffff:${four.join('.')}]`,
    `[::ffff:${high}:${low}]`,
    `[0:0:0:0:0:ffff:${high}:${low}]`,
    `[::${four.join('.')}]`,
    `[::ffff:0:${four.join('.')}]`,
    `[64:ff9b::${four.join('.')}]`,
    `[64:ff9b:1::${high}:${low}]`,
    `[2002:${high}:${low}::]`,
    `[2001:0:1:2:3:4:${high}:${low}]`,
    `[2001:4860:4860::5efe:${high}:${low}]`,
  ]
}

export const hostileUrls: HostileUrls[] = [
  {
    source:
      'WHATWG URL, 3.5 (the IPv4 parser); PayloadsAllTheThings, Server Side Request Forgery: decimal, octal, rare',
    urls: TARGETS.flatMap(spellings).map((host) => `http://${host}:{port}/`),
  },
  {
    source: 'RFC 4291, 6052, 3056, 4380, 5214; PayloadsAllTheThings: IPv6/IPv4 address embedding',
    urls: TARGETS.flatMap(embeddings).map((host) => `http://${host}:{port}/`),
  },
  {
    source: 'IANA special-purpose address registries (RFC 6890)',
    urls: [
      ...['0.0.0.0', '0.1.2.3', '100.64.0.1', '100.127.255.254', '127.255.255.254', '169.254.0.1', '172.16.0.1'],
      ...['172.31.255.254', '192.0.0.1', '192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1', '192.168.255.254'],
      ...[
        '192.175.48.1',
        '198.18.0.1',
        '198.19.255.254',
        '198.51.100.1',
        '203.0.113.1',
        '224.0.0.1',
        '239.255.255.250',
      ],
      ...['240.0.0.1', '255.255.255.255', '[::]', '[::1]', '[0000::1]', '[100::1]', '[2001:2::1]', '[2001:db8::1]'],
      ...[
        '[2001:10::1]',
        '[2001:20::1]',
        '[2001:4:112::1]',
        '[2620:4f:8000::1]',
        '[3fff::1]',
        '[5f00::1]',
        '[4000::1]',
      ],
      ...['[fc00::1]', '[fd12:3456::1]', '[fe80::1]', '[fec0::1]', '[ff02::1]', '[ff0e::1]'],
    ].map((host) => `http://${host}:{port}/`),
  },
  {
    source: 'PayloadsAllTheThings, SSRF URL for Cloud Instances',
    urls: [
      'http://169.254.169.254/latest/meta-data/iam/security-credentials/',
      'http://169.254.170.2/v2/credentials/',
      'http://[fd00:ec2::254]/latest/meta-data/',
      'http://[fd00:ec2::254%25eth0]/latest/meta-data/',
      'http://instance-data/latest/meta-data/',
      'http://169.254.169.254.nip.io/',
      'http://425.510.425.510/',
      'http://7147006462/',
      'http://0x41414141A9FEA9FE/',
      'http://0251.00376.000251.0000376/',
      'http://metadata.google.internal/computeMetadata/v1/?recursive=true',
      'http://metadata/computeMetadata/v1/',
      'http://169.254.169.254/metadata/instance?api-version=2017-04-02',
      'http://168.63.129.16/machine?comp=goalstate',
      'http://192.0.0.192/latest/user-data/',
      'http://100.100.100.200/latest/meta-data/',
      'http://169.254.169.254/hetzner/v1/metadata',
      'http://169.254.169.254/openstack',
      'http://localhost:9001/2018-06-01/runtime/invocation/next',
      'http://127.0.0.1:2375/v1.24/containers/json',
      'http://127.0.0.1:2379/v2/keys/?recursive=true',
      'http://kubernetes.default.svc/api/v1/secrets',
      'http://rancher-metadata/latest/',
    ],
  },
  {
    source: 'PayloadsAllTheThings, Server Side Request Forgery: localhost, malformed, redirection by name',
    urls: [
      'http://localhost:{port}/',
      'https://localhost/',
      'http://LOCALHOST:{port}/',
      'http://localhost.:{port}/',
      'http://a.localhost:{port}/',
      'http://localtest.me:{port}/',
      'http://customer1.app.localhost.my.company.127.0.0.1.nip.io:{port}/',
      'http://127.127.127.127:{port}/',
      'http://127.0.1.3:{port}/',
      'http://0/',
      'http://0:{port}/',
      'http://127.0.1:{port}/',
      'http://o177.0.0.1:{port}/',
      'http://0o177.0.0.1:{port}/',
      'http://q177.0.0.1:{port}/',
      'http://127.0.0.1:22/',
      'http://127.0.0.1:25/',
      'http://0.0.0.0:3128/',
      'http://[::]:25/',
      'http://0000::1:{port}/',
      'localhost:+11211aaa',
      'localhost:00011211aaaa',
      'http://127.0.0.1:{port}/%61dmin',
      'http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/',
      'http://ｌｏｃａｌｈｏｓｔ:{port}/',
      'http://loc%61lhost:{port}/',
      'http://loc\u00adalhost:{port}/',
      'http://loc\talhost:{port}/',
      'http://loc\nalhost:{port}/',
      'http://make-1.2.3.4-rebind-169.254-169.254-rr.1u.ms/',
      'http://spoofed.burpcollaborator.net:{port}/',
    ],
  },
  {
    source: 'O. Tsai, A New Era of SSRF, Black Hat USA 2017; PortSwigger, URL validation bypass cheat sheet',
    urls: [
      'http://1.1.1.1 &@127.0.0.1# @127.0.0.1/',
      'http://1.1.1.1:80\\@127.0.0.1:{port}/',
      'http://1.1.1.1:80\\@@127.0.0.1:{port}/',
      'http://1.1.1.1:80:\\@@127.0.0.1:{port}/',
      'http://1.1.1.1:80#\\@127.0.0.1:{port}/',
      'http://127.0.0.1:{port}\\@1.1.1.1/',
      'http://127.0.0.1:{port}#@1.1.1.1/',
      'http://127.0.0.1:{port}?@1.1.1.1/',
      'http://1.1.1.1@127.0.0.1:{port}/',
      'http://1.1.1.1:80@127.0.0.1:{port}/',
      'http://1.1.1.1%40127.0.0.1:{port}/',
      'http://1.1.1.1@@127.0.0.1:{port}/',
      'http://user:secret@1.1.1.1/',
      'http://user@1.1.1.1/',
      'http://:secret@1.1.1.1/',
      'http://127.0.0.1%00.example.com:{port}/',
      'http://127.0.0.1%0d%0a:{port}/',
      'http://127.0.0.1%23.example.com:{port}/',
      'http://127.0.0.1%2f@1.1.1.1:{port}/',
      'http://127.0.0.1;1.1.1.1:{port}/',
      'http://127.0.0.1,1.1.1.1:{port}/',
      'http://127.0.0.1\u3002example.com:{port}/',
      'http://127.0.0.1.example.com:{port}/',
      'http://example.com.127.0.0.1:{port}/',
      'http://example.com:{port}#.127.0.0.1/',
      '\thttp://127.0.0.1:{port}/',
      ' http://127.0.0.1:{port}/ ',
      'ht\ntp://127.0.0.1:{port}/',
      'HTTP://127.0.0.1:{port}/',
      'hTtP:127.0.0.1:{port}/',
    ],
  },
  {
    source: 'N. Moshe, S. Fligner and others, Exploiting URL Parsing Confusion, Claroty Team82 and Snyk, 2022',
    urls: [
      'http:/127.0.0.1:{port}/',
      'http:127.0.0.1:{port}/',
      'http:///127.0.0.1:{port}/',
      'http:////127.0.0.1:{port}/',
      'http:\\\\127.0.0.1:{port}\\',
      'http:/\\127.0.0.1:{port}/',
      'http://\\127.0.0.1:{port}/',
      '//127.0.0.1:{port}/',
      '///127.0.0.1:{port}/',
      '\\\\127.0.0.1:{port}\\share',
      '127.0.0.1:{port}',
      'http://127.0.0.1\\/:{port}/',
      'http://%31%32%37.0.0.1:{port}/',
      'http://[::1]\\@1.1.1.1:{port}/',
      'http://[127.0.0.1]:{port}/',
      'http://[::1%25lo]:{port}/',
      'http://[::1:{port}/',
      'http://1.1.1.1:{port}@[::1]:{port}/',
      'http://127.0.0.1:0{port}/',
      'http://127.0.0.1:99999/',
      'http://127.0.0.1:-1/',
      'http://',
      'http://?127.0.0.1',
      'http://#127.0.0.1',
    ],
  },
  {
    source: 'PayloadsAllTheThings: SSRF exploitation via URL scheme; RFC 2397; Node.js URL schemes',
    urls: [
      'file:///etc/passwd',
      'file://127.0.0.1/etc/passwd',
      'file://\\/\\/etc/passwd',
      'FILE:///etc/passwd',
      'gopher://127.0.0.1:{port}/_GET%20/%20HTTP/1.1%0d%0a',
      'dict://127.0.0.1:{port}/stat',
      'ftp://127.0.0.1:{port}/',
      'sftp://127.0.0.1:{port}/',
      'tftp://127.0.0.1:{port}/x',
      'ldap://127.0.0.1:{port}/%0astats%0aquit',
      'ws://127.0.0.1:{port}/',
      'wss://127.0.0.1:{port}/',
      'jar:http://127.0.0.1:{port}!/',
      'netdoc:///etc/passwd',
      'data:text/html,<p>hello',
      'blob:http://127.0.0.1:{port}/1',
      'javascript:fetch("http://127.0.0.1:{port}/")',
      'about:blank',
      'node:fs',
      'view-source:http://127.0.0.1:{port}/',
      'feed:http://127.0.0.1:{port}/',
      'unix:/var/run/docker.sock',
      'http+unix://%2fvar%2frun%2fdocker.sock/info',
      '0://127.0.0.1:{port};http://1.1.1.1:80/',
    ],
  },
]
