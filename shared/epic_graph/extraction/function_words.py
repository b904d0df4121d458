"""Function words of languages other than English, which identify a text's language; compiled for this package."""

from __future__ import annotations

from epic_memory.text.phrases import word_set

LANGUAGES = {
    "de": word_set("""
        der die das den dem des ein eine einen einem einer eines kein keine keinen keiner und oder aber doch denn
        sondern ist sind war waren sein bin bist wird werden wurde wurden worden hat haben hatte hatten habe kann
        können konnte konnten muss müssen musste soll sollen sollte will wollen wollte darf dürfen mag möchte ich
        du er sie es wir ihr ihm ihn ihnen mich mir dich dir uns euch sich mein meine meinen meiner dein deine
        unser unsere ihre ihren ihrem seine seinen seinem seiner dieser diese dieses diesen diesem jener jene
        jede jeder jedes alle allen alles viele vielen mehr sehr nicht nur noch auch schon so wie als wenn dann
        weil dass daß ob da hier dort wo wer was wann warum welche welcher welches mit von vom zu zum zur bei
        beim in im ins an am auf aus nach vor für über unter um durch gegen ohne bis seit zwischen während wegen
        trotz man immer nie heute gestern morgen jetzt gibt geht ging macht gern gerne wieder ganz etwa zwei drei
        vier fünf bitte ja nein zusammen"""),
    "fr": word_set("""
        le la les l un une des du de d au aux et ou mais donc or ni car que qui quoi dont où quand comment
        pourquoi combien quel quelle quels quelles ce cet cette ces mon ma mes ton ta tes son sa ses notre nos
        votre vos leur leurs je j tu il elle on nous vous ils elles me te se s y en est sont était étaient être
        été sera a ont avait avaient avoir ai as fait font faire peut peuvent doit doivent ne n pas plus moins
        très trop aussi bien encore toujours jamais déjà ici là dans par pour sur sous avec sans chez vers entre
        contre depuis pendant après avant comme si lorsque puis alors tout tous toute toutes même autre autres
        deux trois quatre cinq c qu m t lui eux aime aiment va vont veut oui non rien peu beaucoup"""),
    "es": word_set("""
        el la los las un una unos unas lo al del de y e o u pero sino que quien quienes cual cuales cuando donde
        como cómo qué quién cuál dónde cuándo porque por para con sin sobre entre hacia hasta desde en a ante
        bajo según durante mi mis tu tus su sus nuestro nuestra nuestros este esta estos estas ese esa esos esas
        aquel aquella yo tú él ella nosotros ellos ellas me te se le les nos es son era eran fue fueron ser sido
        está están estaba estar ha han había haber hay he hace hacen hacer tiene tienen tenía tener puede pueden
        no sí muy más menos también tampoco ya aún siempre nunca todo toda todos todas otro otra otros otras
        mismo dos tres cuatro cinco si cada gusta gustan quiero va van fui"""),
    "it": word_set("""
        il lo la i gli le un uno una l di del dello della dei degli delle d a al allo alla ai agli alle da dal
        dallo dalla dai dalle in nel nello nella nei negli nelle con su sul sulla sui sulle per tra fra e ed o ma
        che chi cui quale quali quando dove come perché non più meno molto anche ancora già sempre mai mio mia
        miei tuo suo sua suoi nostro vostro loro questo questa questi queste quello quella quelli io tu lui lei
        noi voi essi mi ti si ci vi ne è sono era erano essere stato stata ha hanno aveva avere fa fare può
        possono c tutto tutti tutta altro due tre se quanto quell dell nell all dall sull un"""),
    "pt": word_set("""
        o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela pelos pelas para com sem sobre
        entre até desde ao à aos às e ou mas que quem qual quais quando onde como porque não mais menos muito
        também já ainda sempre nunca meu minha seu sua seus suas nosso este esta estes esse essa aquele eu tu ele
        ela nós eles elas me te se lhe é são era eram foi foram ser está estão estava estar tem têm tinha ter há
        pode podem faz fazer todo toda todos outro dois duas três se isso isto"""),
    "nl": word_set("""
        de het een en of maar want dat die dit deze wie wat waar wanneer hoe waarom welke is zijn was waren wordt
        worden werd werden heeft hebben had hadden kan kunnen moet moeten zal zullen wil willen mag ik jij je hij
        zij ze wij we jullie u mij hem haar hun ons onze mijn jouw niet geen wel nog ook al zo als dan toen er
        hier daar van in op aan met voor door bij naar uit over onder tussen tegen tot sinds na om te per zonder
        veel meer zeer heel altijd nooit twee drie vier vijf"""),
    "sv": word_set("""
        och i att det som en på är av för med till den har de inte om ett han hon var jag men sig från vi så kan
        när nu där efter vid år under ska skulle vara eller hans också då mot ur ut upp över mellan utan mycket
        detta dessa denna blev blir finns vad vem hur min din vår sin sitt sina"""),
    "ru": word_set("""
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне было вот
        от меня еще ещё нет о об из ему теперь когда даже ну ли если уже или ни быть был него до вас нибудь опять
        вам ведь там потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам чтоб без
        будто чего раз тоже себе под будет ж тогда кто этот того потому этого какой ним здесь этом один мой тем
        чтобы нее были куда зачем всех можно при два об после над больше тот через эти нас про них какая много
        разве три эту моя свою этой перед это очень также который которая которые которое это є і та що як від ви
        ми це він вона вони але або його її"""),
    "el": word_set("""
        ο η το οι τα του της των τον την στο στη στην στον στα στις στους και κι να θα με σε από για που πως πώς
        δεν μη μην είναι ήταν έχει έχουν είχε αυτό αυτός αυτή ένα ένας μια μία πολύ πιο ότι όταν αν αλλά ή κάθε
        όλα μου σου μας σας τους τις γιατί πού ποιος τι εκεί εδώ"""),
    "ar": word_set("""
        في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون هو هي هم أنا نحن أنت ما لا لم لن قد إن
        أن كل بعد قبل عند حتى أو ثم بين كما لكن أين متى كيف لماذا هل أي غير منذ خلال حول تحت فوق و"""),
    "fa": word_set("""
        و در به از که این را با است برای آن یک تا بر هم نیز شد شده بود اما یا هر ما من او شما آنها خود های چه کجا
        چرا می کرد کند دارد دارند بودند"""),
    "he": word_set("""
        של את על עם לא זה זו הוא היא הם הן אני אנחנו אתה גם כי אם או אבל יש אין היה היתה הייתה היו כל רק עד בין
        אחרי לפני מה מי איפה מתי איך למה כמו יותר מאוד אל מן אשר"""),
    "hi": word_set("""
        के का की में है हैं और से को पर यह वह ने एक नहीं था थी थे भी कर हो हुआ हुई जो तो ही या लिए इस उस कि मैं
        हम तुम आप वे ये अपने अपनी अपना कुछ सब बहुत क्या कौन कहाँ कहां कब कैसे क्यों साथ बाद तक गया गई गए रहा रही
        रहे जाता जाती होता होती करता करते करना मेरा मेरी मेरे मुझे उन्हें"""),
    "ko": word_set("""
        그 이 저 것 수 및 등 또는 그리고 하지만 그러나 나는 우리 있다 있는 없다 없는 한다 하는 된다 이다
        매우 아주 더 가장"""),
    "pl": word_set("""
        i w we z ze na do nie się to jest że o od po za a ale jak co dla przez przy lub są był była było były być
        może tylko już tak jego jej ich ten ta te tego tej tym który która które gdzie kiedy kto czy bardzo oraz
        pod nad między bez jako ma mają"""),
    "tr": word_set("""
        ve bir bu da de için ile çok ne o mi mı daha gibi kadar ama ya en her olan olarak var yok sonra önce ben
        sen biz siz onlar nerede nasıl neden hangi değil"""),
}  # fmt: skip
