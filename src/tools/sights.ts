/** `sights`: what there is to see in a city, from a list that is built in. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { ToolFailedError } from '../shared/errors.ts'

/**
 * Sights of cities: a line with the names of the city, the last being its country, and below it a line for each sight.
 * A sight has the name of its article in the English Wikipedia, which is the source of what is said of it.
 */
export const SIGHTS = `Amsterdam | 阿姆斯特丹 | Netherlands
Rijksmuseum: art and history of the Netherlands, with Rembrandt's Night Watch
Anne Frank House: the house where the diary was written in hiding
Van Gogh Museum: the largest collection of his paintings
Canals of Amsterdam: ring of canals of the 17th century, World Heritage
Athens | Αθήνα | 雅典 | Greece
Acropolis of Athens: citadel above the city with the Parthenon, World Heritage
Acropolis Museum: finds from the slopes and the temples of the Acropolis
Ancient Agora of Athens: market and meeting place of the ancient city
Plaka: old quarter of lanes below the Acropolis
Auckland | Tāmaki Makaurau | 奥克兰 | 奧克蘭 | New Zealand
Sky Tower (Auckland): tower of 328 m with a view over the city
Auckland War Memorial Museum: Maori and Pacific collections in the Domain
Rangitoto Island: young volcano in the gulf, reached by ferry
Waiheke Island: island of beaches and vineyards, reached by ferry
Bangkok | กรุงเทพ | กรุงเทพมหานคร | 曼谷 | Thailand
Grand Palace: palace of the kings since 1782
Wat Pho: temple with the reclining Buddha of 46 m
Wat Arun: temple of the dawn at the river
Chatuchak Weekend Market: market of some thousands of stalls
Barcelona | 巴塞罗那 | 巴塞隆納 | Spain
Sagrada Família: basilica by Antoni Gaudí, under construction since 1882
Park Güell: garden by Gaudí above the city, World Heritage
Casa Batlló: house rebuilt by Gaudí on Passeig de Gràcia
Gothic Quarter, Barcelona: old town with the cathedral
Beijing | 北京 | Peking | China
Forbidden City: palace of the emperors of Ming and Qing, World Heritage
Temple of Heaven: altar and park where emperors prayed for harvests
Summer Palace: imperial garden at Kunming Lake
Mutianyu: restored section of the Great Wall north of the city
Berlin | 柏林 | Germany
Brandenburg Gate: gate of 1791, sign of the city
Museum Island: five museums on the Spree, World Heritage
East Side Gallery: painted piece of the Berlin Wall
Reichstag building: seat of parliament with a glass dome
Bogotá | 波哥大 | Colombia
Gold Museum, Bogotá: gold of the peoples before the conquest
Monserrate: mountain with a church above the city, by cable car
La Candelaria: old quarter with houses of the colonial time
Botero Museum: works given by Fernando Botero
Boston | 波士顿 | 波士頓 | United States
Freedom Trail: walk of 4 km past places of the revolution
Boston Public Garden: garden of 1837 with swan boats
Museum of Fine Arts, Boston: one of the large art museums of the country
Fenway Park: baseball park of 1912
Brussels | Bruxelles | Brussel | 布鲁塞尔 | 布魯塞爾 | Belgium
Grand-Place: square of guild houses, World Heritage
Atomium: building of nine spheres from the fair of 1958
Royal Museums of Fine Arts of Belgium: Bruegel, Rubens and Magritte
Manneken Pis: small fountain of a boy
Budapest | 布达佩斯 | 布達佩斯 | Hungary
Hungarian Parliament Building: neo-Gothic house at the Danube
Buda Castle: castle of the kings on its hill, World Heritage
Széchenyi thermal bath: thermal bath with open-air pools
Fisherman's Bastion: terrace with a view over the Danube
Buenos Aires | 布宜诺斯艾利斯 | 布宜諾斯艾利斯 | Argentina
Teatro Colón: opera house of 1908
La Recoleta Cemetery: cemetery with the tomb of Eva Perón
Plaza de Mayo: square with the pink house of the president
Caminito: painted street in La Boca
Busan | 부산 | 釜山 | South Korea
Haeundae Beach: the best known beach of the country
Gamcheon Culture Village: painted houses on a slope
Haedong Yonggungsa: temple at the sea
Jagalchi Market: fish market at the harbour
Cairo | القاهرة | 开罗 | 開羅 | Egypt
Giza pyramid complex: the three great pyramids and the Sphinx, World Heritage
Egyptian Museum: antiquities on Tahrir Square
Khan el-Khalili: bazaar in the old city
Cairo Citadel: fortress begun by Saladin
Cape Town | Kaapstad | 开普敦 | 開普敦 | South Africa
Table Mountain: flat mountain above the city, by cable car
Robben Island: island where Nelson Mandela was imprisoned, World Heritage
Kirstenbosch National Botanical Garden: garden of plants of the Cape
Boulders Beach: beach with African penguins
Chicago | 芝加哥 | United States
Art Institute of Chicago: art museum with impressionists and modern Americans
Millennium Park: park with Cloud Gate, the mirrored sculpture
Willis Tower: tower of 442 m with a deck of glass
Field Museum: natural history, with a skeleton of Tyrannosaurus rex
Copenhagen | København | 哥本哈根 | Denmark
Tivoli Gardens: amusement park of 1843
Nyhavn: harbour of the 17th century with coloured houses
The Little Mermaid (statue): statue of 1913 at the harbour
Rosenborg Castle: castle of the Renaissance with the crown jewels
Delhi | New Delhi | दिल्ली | 德里 | 新德里 | India
Red Fort: fort of the Mughals, World Heritage
Humayun's Tomb: tomb of 1572, model of the Taj Mahal
Qutb Minar: minaret of 73 m, World Heritage
India Gate: memorial of the war on the central avenue
Dubai | دبي | 杜拜 | 迪拜 | United Arab Emirates
Burj Khalifa: tower of 828 m, the highest building of the world
Palm Jumeirah: island made in the form of a palm
Al Fahidi Historical Neighbourhood: old quarter with wind towers
Dubai Creek: inlet with boats and souks on both sides
Dublin | Baile Átha Cliath | 都柏林 | Ireland
Trinity College Dublin: university with the Book of Kells
Dublin Castle: seat of English rule until 1922
Guinness Storehouse: museum of the brewery with a bar on its roof
Kilmainham Gaol: prison of the risings, now a museum
Edinburgh | Dùn Èideann | 爱丁堡 | 愛丁堡 | United Kingdom
Edinburgh Castle: castle on its rock above the old town
Royal Mile: street from the castle to Holyrood
Arthur's Seat: hill of an old volcano with a view
National Museum of Scotland: history, nature and technology
Florence | Firenze | 佛罗伦萨 | 佛羅倫斯 | Italy
Uffizi: gallery with Botticelli, Leonardo and Michelangelo
Florence Cathedral: cathedral with the dome of Brunelleschi
Galleria dell'Accademia: museum with the David of Michelangelo
Ponte Vecchio: bridge of 1345 with shops
Hanoi | Hà Nội | 河内 | 河內 | Vietnam
Hoàn Kiếm Lake: lake in the middle of the old city
Temple of Literature, Hanoi: temple of Confucius and first university, of 1070
Ho Chi Minh Mausoleum: tomb on Ba Đình Square
Vietnam Museum of Ethnology: peoples of the country and their houses
Helsinki | Helsingfors | 赫尔辛基 | 赫爾辛基 | Finland
Suomenlinna: sea fortress on islands, World Heritage
Helsinki Cathedral: white cathedral on Senate Square
Temppeliaukio Church: church hewn into rock
Ateneum: museum of Finnish art
Hong Kong | 香港 | China
Victoria Peak: mountain above the harbour, by tram
Star Ferry: ferry across the harbour since 1888
Tian Tan Buddha: bronze Buddha of 34 m on Lantau
Temple Street: night market in Kowloon
Istanbul | İstanbul | 伊斯坦布尔 | 伊斯坦堡 | Turkey
Hagia Sophia: church of 537, now a mosque, World Heritage
Blue Mosque, Istanbul: mosque of 1616 with blue tiles
Topkapı Palace: palace of the sultans
Grand Bazaar, Istanbul: covered market of the 15th century
Kaohsiung | 高雄 | Taiwan
Dragon and Tiger Pagodas: pagodas on Lotus Pond
Fo Guang Shan Buddha Museum: museum with a Buddha of 108 m
Pier-2 Art Center: warehouses of the harbour made into galleries
Cijin District: island of beaches and seafood, by ferry
Kraków | Krakow | Cracow | 克拉科夫 | Poland
Wawel Castle: castle of the kings above the Vistula
Main Square, Kraków: square of the Middle Ages with the Cloth Hall
Wieliczka Salt Mine: salt mine with chapels, World Heritage
Kazimierz: Jewish quarter with old synagogues
Kuala Lumpur | 吉隆坡 | Malaysia
Petronas Towers: twin towers of 452 m with a bridge
Batu Caves: temple of Hindus in caves of limestone
Islamic Arts Museum Malaysia: arts of the Islamic world
Merdeka Square, Kuala Lumpur: square where independence was declared
Kyoto | 京都 | Japan
Kinkaku-ji: golden pavilion at its pond, World Heritage
Fushimi Inari-taisha: shrine with thousands of red gates
Kiyomizu-dera: temple with a wooden stage on the slope
Nijō Castle: castle of the shoguns of 1603
Lima | 利马 | 利馬 | Peru
Larco Museum: art of the peoples before the conquest
Plaza Mayor, Lima: square where the city was founded in 1535
Huaca Pucllana: pyramid of clay from about 500
Basilica and Convent of San Francisco, Lima: monastery with catacombs
Lisbon | Lisboa | 里斯本 | Portugal
Belém Tower: tower of 1519 at the Tagus, World Heritage
Jerónimos Monastery: monastery of the time of discoveries
São Jorge Castle: castle above the old town
Alfama: oldest quarter, of lanes and stairs
London | 伦敦 | 倫敦 | United Kingdom
British Museum: antiquities of the world, with the Rosetta Stone
Tower of London: castle with the crown jewels, World Heritage
Westminster Abbey: church of the coronations
Tate Modern: modern art in a power station
Los Angeles | 洛杉矶 | 洛杉磯 | United States
Griffith Observatory: observatory with a view of city and Hollywood sign
Getty Center: art museum and gardens on a hill
Hollywood Walk of Fame: stars of names in the pavement
Santa Monica Pier: pier of 1909 with a fair
Madrid | 马德里 | 馬德里 | Spain
Museo del Prado: Velázquez, Goya and Bosch
Royal Palace of Madrid: palace of 1755 with halls of state
Parque del Buen Retiro: park with a lake and a palace of glass
Museo Reina Sofía: modern art, with Picasso's Guernica
Marrakesh | Marrakech | مراكش | 马拉喀什 | 馬拉喀什 | Morocco
Jemaa el-Fnaa: square of food and storytellers, intangible heritage
Bahia Palace: palace of the 19th century
Majorelle Garden: garden of a painter, with a blue house
Saadian Tombs: tombs of the sultans of the 16th century
Melbourne | 墨尔本 | 墨爾本 | Australia
National Gallery of Victoria: oldest art museum of the country
Royal Botanic Gardens Victoria: gardens at the river
Queen Victoria Market: market of 1878
Royal Exhibition Building: hall of the fair of 1880, World Heritage
Mexico City | Ciudad de México | CDMX | 墨西哥城 | Mexico
National Museum of Anthropology (Mexico): peoples of Mexico, with the stone of the sun
Zócalo: square of the Aztecs and of today
Templo Mayor: ruin of the main temple of the Aztecs
Palacio de Bellas Artes: theatre with murals of Rivera
Montreal | Montréal | 蒙特利尔 | 蒙特婁 | Canada
Notre-Dame Basilica (Montreal): neo-Gothic basilica of 1829
Mount Royal: hill with a park and a view
Old Montreal: streets of the old port
Montreal Botanical Garden: garden with greenhouses
Moscow | Москва | 莫斯科 | Russia
Red Square: square at the Kremlin, World Heritage
Saint Basil's Cathedral: cathedral of 1561 with coloured domes
Tretyakov Gallery: Russian art
Moscow Kremlin: fortress with cathedrals and palaces
Mumbai | Bombay | मुंबई | 孟买 | 孟買 | India
Gateway of India: arch of 1924 at the harbour
Elephanta Caves: temples in caves on an island, World Heritage
Chhatrapati Shivaji Terminus: station of 1887, World Heritage
Marine Drive, Mumbai: curved road along the bay
Munich | München | 慕尼黑 | Germany
Marienplatz: square with the town hall and its chimes
Nymphenburg Palace: summer palace with a park
Deutsches Museum: museum of science and technology
Englischer Garten: large park with a surfers' wave
Nairobi | 内罗毕 | 奈洛比 | Kenya
Nairobi National Park: wild animals at the edge of the city
Nairobi National Museum: nature, history and early man
Karen Blixen Museum: farmhouse of the author
Giraffe Centre: centre where giraffes are bred
New York | New York City | NYC | 纽约 | 紐約 | United States
Statue of Liberty: statue of 1886 on its island, World Heritage
Metropolitan Museum of Art: art of five thousand years
Central Park: park of 3.4 km² in Manhattan
Empire State Building: tower of 1931 with a view
Osaka | 大阪 | Japan
Osaka Castle: castle rebuilt on the walls of 1583
Dōtonbori: street of lights and food at a canal
Shitennō-ji: temple founded in 593
Osaka Aquarium Kaiyukan: aquarium with whale sharks
Oslo | 奥斯陆 | 奧斯陸 | Norway
Oslo Opera House: opera with a roof that one walks on
Vigeland installation: park with 200 sculptures
Fram Museum: ship of the polar expeditions
Akershus Fortress: fortress at the fjord
Paris | 巴黎 | France
Eiffel Tower: tower of 1889, 330 m high
Louvre: art museum with the Mona Lisa
Notre-Dame de Paris: cathedral of the Middle Ages on its island
Musée d'Orsay: impressionists in a railway station
Prague | Praha | 布拉格 | Czech Republic
Prague Castle: castle with the cathedral of St. Vitus
Charles Bridge: bridge of the 14th century with statues
Old Town Square: square with the astronomical clock
Josefov: Jewish quarter with synagogues and cemetery
Reykjavík | 雷克雅未克 | 雷克雅維克 | Iceland
Hallgrímskirkja: church with a tower of 74 m
Harpa (concert hall): concert hall of glass at the harbour
National Museum of Iceland: history from the settlement on
Perlan: museum of nature in a dome
Rio de Janeiro | 里约热内卢 | 里約熱內盧 | Brazil
Christ the Redeemer (statue): statue of 1931 on Corcovado
Sugarloaf Mountain: rock at the bay, by cable car
Copacabana, Rio de Janeiro: beach of 4 km
Rio de Janeiro Botanical Garden: garden of 1808
Rome | Roma | 罗马 | 羅馬 | Italy
Colosseum: arena of the year 80, World Heritage
Pantheon, Rome: temple of about 126 with an open dome
Trevi Fountain: fountain of 1762
Roman Forum: middle of the ancient city
San Francisco | 旧金山 | 舊金山 | 三藩市 | United States
Golden Gate Bridge: bridge of 1937 over the strait
Alcatraz Island: island of the old prison
Golden Gate Park: park with museums and gardens
San Francisco cable car system: cable cars since 1873
Seoul | 서울 | 首尔 | 首爾 | South Korea
Gyeongbokgung: main palace of the Joseon kings
Bukchon Hanok Village: quarter of old houses
N Seoul Tower: tower on Namsan with a view
National Museum of Korea: art and history of the country
Shanghai | 上海 | China
The Bund: river front with banks of the 1920s
Yu Garden: garden of the Ming time in the old city
Shanghai Museum: bronzes, ceramics and calligraphy
Shanghai Tower: tower of 632 m
Singapore | Singapura | 新加坡 | Singapore
Gardens by the Bay: gardens with trees of steel and cooled houses
Singapore Botanic Gardens: garden of 1859, World Heritage
National Gallery Singapore: art of Southeast Asia
Chinatown, Singapore: quarter with temples and food
Stockholm | 斯德哥尔摩 | 斯德哥爾摩 | Sweden
Vasa Museum: warship that sank in 1628
Gamla stan: old town on its island
Skansen: open-air museum of 1891
Stockholm Palace: palace of the kings
Sydney | 悉尼 | 雪梨 | Australia
Sydney Opera House: opera of 1973 at the harbour, World Heritage
Sydney Harbour Bridge: bridge of 1932 that one may climb
Bondi Beach: beach of surfers
Royal Botanic Garden, Sydney: garden of 1816 at the harbour
Taipei | 台北 | 臺北 | Taiwan
Taipei 101: tower of 508 m with a view
National Palace Museum: treasures of the Chinese emperors
Chiang Kai-shek Memorial Hall: memorial of 1980 on a wide square
Shilin Night Market: night market of food
Toronto | 多伦多 | 多倫多 | Canada
CN Tower: tower of 553 m
Royal Ontario Museum: nature and cultures of the world
Distillery District: brick buildings of a distillery, now shops
Toronto Islands: islands in the lake, by ferry
Tokyo | 東京 | 东京 | Japan
Sensō-ji: temple in Asakusa, the oldest of the city
Meiji Shrine: shrine in a wood
Tokyo National Museum: art and antiquities of Japan
Tokyo Skytree: tower of 634 m
Vancouver | 温哥华 | 溫哥華 | Canada
Stanley Park: park with a path at the sea wall
Museum of Anthropology at UBC: art of the peoples of the coast
Granville Island: market and workshops under a bridge
Capilano Suspension Bridge: hanging bridge over a river
Venice | Venezia | 威尼斯 | Italy
St Mark's Basilica: basilica with golden mosaics
Doge's Palace: palace of the doges
Rialto Bridge: bridge of 1591 over the Grand Canal
Gallerie dell'Accademia: painting of Venice
Vienna | Wien | 维也纳 | 維也納 | Austria
Schönbrunn Palace: summer palace of the emperors, World Heritage
Kunsthistorisches Museum: art of the Habsburgs, with Bruegel
St. Stephen's Cathedral, Vienna: cathedral of the Middle Ages
Belvedere, Vienna: palace with Klimt's Kiss`

/** A sight of a city. */
export interface Sight {
  name: string
  about: string
  /** Address of the page that says so. */
  source: string
}

/** Sights of a city, by `sights`. */
export interface CitySights {
  city: string
  country: string
  sights: Sight[]
}

const TIMEOUT_MS = 5_000

/**
 * The tool `sights`: sights of some sixty large cities, each with what it is and its page in the English Wikipedia. It
 * asks nobody. A city is found by its English name, by its own in its script, and by its Chinese one.
 *
 * @throws ToolFailedError for a city that is not in the list; the error has the list.
 * @example
 * { name: 'travel', tools: [weather(), sights] } // a model's call: { city: '台北' }
 */
export const sights = defineTool({
  name: 'sights',
  description: 'Gives sights of a large city, each with what it is and the page that says so.',
  input: z.strictObject({
    city: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .describe('The city, in English, in its own script or in Chinese; after a comma its country, if you like'),
  }),
  readOnly: true,
  idempotent: true,
  timeoutMs: TIMEOUT_MS,
  run({ city }): CitySights {
    const [name = '', country] = city.split(/[,，、]/u).map(bare)
    const found = CITIES.find(
      (each) => each.names.some((one) => bare(one) === name) && (!country || bare(each.country) === country),
    )
    if (found) return { city: found.names[0]!, country: found.country, sights: found.sights }
    const known = CITIES.map(({ names: [first] }) => first).join(', ')
    throw new ToolFailedError(`There are no sights of ${JSON.stringify(city)} in the list. It has ${known}.`, { city })
  },
})

interface City {
  names: string[]
  country: string
  sights: Sight[]
}

const CITIES: readonly City[] = SIGHTS.split(/\n(?=[^\n]*\|)/).map((text) => {
  const [head = '', ...lines] = text.split('\n')
  const names = head.split(' | ')
  const country = names.pop()!
  return { names, country, sights: lines.map(sightIn) }
})

function sightIn(line: string): Sight {
  const end = line.indexOf(': ')
  const name = line.slice(0, end)
  const page = encodeURIComponent(name.replaceAll(' ', '_'))
  return { name, about: line.slice(end + 2), source: `https://en.wikipedia.org/wiki/${page}` }
}

/** Returns a name without case, accents and the words for city at its end. */
function bare(text: string): string {
  const letters = text.normalize('NFD').replace(/\p{M}/gu, '').normalize('NFC').toLowerCase().trim()
  return letters.length > 2 ? letters.replace(/(?:市|시| city)$/u, '') : letters
}
